"""Builds, refreshes and rebuilds an index: writes its segments, and makes the mutation that registers it.

    rows without entries  ->  a new segment  ->  segments of one size merged  ->  one domain

1. An index is complete for the snapshot it was built from; the commit of its domain makes it valid.
2. A refresh costs the tail, and now and then a merge of segments of one size.
3. Files of an index never change; new ones have names that nobody knows before the commit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import NoRowIdentity
from holdfast.index.kinds import IndexKind, Site
from holdfast.index.reader import PinnedReader
from holdfast.index.registry import (
    FilesRef,
    Index,
    IndexDefinition,
    SegmentRef,
    directory_of,
    domain_of,
    key_column,
    rendered,
)
from holdfast.index.segment import SegmentWriting
from holdfast.index.tail import Tail, known_bytes, known_files, parts_of, whole_of
from holdfast.model.mutation import Mutation
from holdfast.model.snapshot import Snapshot
from holdfast.plan.dml.arithmetic import live_rows
from holdfast.schema.types import Field

FILES = "files.parquet"
SAME_SIZE = 4  # segments of one tier; more are put together
_TIER = 4  # the factor between tiers
_DEAD = 1.25  # entries per live row: beyond, a fifth of them is dead
_FAR = 50  # commits after which an index moves on although nothing is to be added


def defined(
    snapshot: Snapshot, table_id: str, name: str, kind: str, fields: Sequence[Field], params: Mapping[str, Any]
) -> IndexDefinition:
    """What an index is about, bound to the identity that rows have now."""
    identity = snapshot.identity
    if identity is None:
        raise NoRowIdentity(
            f"an index needs rows with ids, which the table at {snapshot.location.url} does not have: "
            "call enableRowTracking(), which rewrites nothing"
        )
    columns = tuple(map(key_column, fields))
    return IndexDefinition(name, kind, columns, dict(params), table_id, identity.id_column, identity.version_column)


def made(site: Site, kind: IndexKind, definition: IndexDefinition, *, generation: int = 1) -> Index:
    """An index over every row of a snapshot."""
    with SegmentWriting(site.snapshot.location) as writing:
        files = _known(site, definition.name, writing)
        segments = kind.build(site, definition, whole_of(site.snapshot, site.load_hidden), ())
    uuid = str(site.env.new_uuid())
    return Index(definition, uuid, generation, site.snapshot.version, files, tuple(segments))


def refreshed(site: Site, kind: IndexKind, index: Index, reader: PinnedReader, tail: Tail) -> Index | None:
    """An index with the rows of its tail; None where it answers for all as it is."""
    behind = site.snapshot.version - index.version
    if not len(tail) and behind < _FAR and tail.why is None:
        return None
    new: Sequence[SegmentRef] = ()
    with SegmentWriting(site.snapshot.location) as writing:
        files = _known(site, index.name, writing)
        if len(tail):
            parts = parts_of(site.snapshot, tail, site.load_hidden)
            new = kind.build(site, index.definition, parts, index.segments)
        segments = _together(site, kind, index.definition, (*index.segments, *new), reader)
    return Index(index.definition, index.uuid, index.generation + 1, site.snapshot.version, files, segments)


def saying(operation: str, index: Index) -> Mutation:
    """The commit that makes an index true."""
    parameters = {
        "name": index.name,
        "kind": index.definition.kind,
        "columns": msgspec.json.encode([c.name for c in index.definition.columns]).decode(),
        "version": str(index.version),
    }
    metrics = {"numIndexEntries": index.entries, "numIndexSegments": len(index.segments), "numIndexBytes": index.bytes}
    return Mutation(operation, parameters, metrics, data_change=False, domains={domain_of(index.name): rendered(index)})


def unsaying(name: str) -> Mutation:
    """The commit after which there is no such index."""
    return Mutation("DROP INDEX", {"name": name}, data_change=False, domains={domain_of(name): None})


def renaming(index: Index, name: str) -> Mutation:
    """The commit that gives an index another name; its segments stay where they are."""
    definition = msgspec.structs.replace(index.definition, name=name)
    renamed = msgspec.structs.replace(index, definition=definition, generation=index.generation + 1)
    domains = {domain_of(index.name): None, domain_of(name): rendered(renamed)}
    return Mutation("RENAME INDEX", {"name": index.name, "newName": name}, data_change=False, domains=domains)


def _known(site: Site, name: str, writing: SegmentWriting) -> FilesRef:
    """Write down the files that an index is complete for."""
    directory = directory_of(name, str(site.env.new_uuid()))
    stored = writing.put(directory, FILES, known_bytes(known_files(site.snapshot)))
    return FilesRef(f"{directory}/{FILES}", stored.bytes, f"{stored.crc:08x}")


def _together(
    site: Site, kind: IndexKind, definition: IndexDefinition, segments: Sequence[SegmentRef], reader: PinnedReader
) -> tuple[SegmentRef, ...]:
    """The segments, those put together that are too many of one size; all of them, where too many entries are dead."""
    held = list(segments)
    live = sum(n or 0 for n in live_rows(site.snapshot.files))
    if len(held) > 1 and sum(s.entries for s in held) > _DEAD * live + 1000:
        return _merged(site, kind, definition, held, held, reader)
    while True:
        tiers: dict[int, list[SegmentRef]] = defaultdict(list)
        for segment in held:
            tiers[int(math.log(max(segment.entries, 1), _TIER))].append(segment)
        crowded = next((tier for tier in sorted(tiers) if len(tiers[tier]) > SAME_SIZE), None)
        if crowded is None:
            return tuple(held)
        held = list(_merged(site, kind, definition, held, tiers[crowded], reader))


def _merged(
    site: Site,
    kind: IndexKind,
    definition: IndexDefinition,
    segments: Sequence[SegmentRef],
    chosen: Sequence[SegmentRef],
    reader: PinnedReader,
) -> tuple[SegmentRef, ...]:
    one = kind.merge(site, definition, chosen, reader)
    rest = [segment for segment in segments if segment not in chosen]
    return tuple(rest) if one is None else (*rest, one)
