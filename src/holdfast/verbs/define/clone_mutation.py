"""Computes the definition and the mutation of a clone, and copies files.

1. Rows of a clone are new rows: they have ids of their own from its first version on, and the ids that the source's
   files carry are not read, because the clone has other names for these columns.
2. Cloning again over a clone changes only what differs: files it has keep the ids it gave them.
3. All files are copied before the commit that names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.mutation import AllRows, Mutation, NoRows, TableDefinition
from holdfast.model.snapshot import Snapshot
from holdfast.schema.properties import (
    COLUMN_MAPPING_MAX_ID,
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
)
from holdfast.storage.location import Location
from holdfast.storage.open import place
from holdfast.storage.sink import copy

_FOR_LIFE = (MATERIALIZED_ROW_ID, MATERIALIZED_ROW_COMMIT_VERSION)  # a table's own names, from first to last
_OWN = (*_FOR_LIFE, IN_COMMIT_TIMESTAMP_VERSION, IN_COMMIT_TIMESTAMP_TIME)  # what each table says for itself
_COPIERS = 8


def cloned_shape(
    source: TableDefinition, properties: Mapping[str, str], features: frozenset[str], old: TableDefinition | None
) -> TableDefinition:
    """What a clone is; `old` is the table it takes the place of."""
    kept = {name: value for name, value in source.properties.items() if name not in _OWN}
    if old is not None:
        kept |= {name: old.properties[name] for name in _FOR_LIFE if name in old.properties}
        largest = max(int(shape.properties.get(COLUMN_MAPPING_MAX_ID, 0)) for shape in (source, old))
        kept |= {COLUMN_MAPPING_MAX_ID: str(largest)} if largest else {}
    return replace(source, properties={**kept, **properties}, features=source.features | features)


def cloned(
    source: Snapshot,
    files: pa.Table,
    shape: TableDefinition,
    old: Snapshot | None,
    *,
    shallow: bool,
    copied: int,
    domains: Mapping[str, str],
) -> Mutation:
    """Make a table of these files, with the columns of RESTAMPED, or put them in the place of a table's own.

    `domains` is what the source keeps by name for its users.
    """
    removed, added = _differing(files, old)
    size = pc.sum(files.column("size")).as_py() or 0
    return Mutation(
        "CLONE",
        {"source": source.location.url, "sourceVersion": str(source.version), "isShallow": str(shallow).lower()},
        {
            "sourceTableSize": size,
            "sourceNumOfFiles": files.num_rows,
            "numRemovedFiles": removed.num_rows,
            "removedFilesSize": pc.sum(removed.column("size")).as_py() or 0,
            "numCopiedFiles": 0 if shallow else added.num_rows,
            "copiedFilesSize": copied,
        },
        removed=removed,
        readded=added,
        reads=NoRows() if old is None else AllRows(),
        shape=shape,
        domains=dict(domains),
    )


def copy_files(source: Location, target: Location, copies: Mapping[str, str], now_ms: Callable[[], int]) -> int:
    """Copy files by their keys, from and to; gives the bytes."""

    def one(pair: tuple[str, str]) -> int:
        store, key = place(source, pair[0])
        return copy(store, key, target, pair[1], now_ms)

    with ThreadPoolExecutor(_COPIERS) as pool:
        return sum(pool.map(one, copies.items()))  # one per file


def lacking(copies: Mapping[str, str], old: Snapshot | None) -> dict[str, str]:
    """Of files to copy those that the table does not have already."""
    if old is None:
        return dict(copies)
    there = set(old.files.column("key").to_pylist())  # one per file
    return {key: name for key, name in copies.items() if name not in there}


def _differing(files: pa.Table, old: Snapshot | None) -> tuple[pa.Table, pa.Table]:
    """Files that go, and files that come; one that only has another vector keeps its ids."""
    current = files.slice(0, 0).select(files.column_names[:-2]) if old is None else old.files.table
    ours, theirs = _identities(files), _identities(current)
    removed = current.filter(pc.invert(pc.is_in(theirs, value_set=ours)))
    added = files.filter(pc.invert(pc.is_in(ours, value_set=theirs)))
    at = pc.index_in(added.column("key"), value_set=current.column("key").combine_chunks())
    for name in ("base_row_id", "default_row_commit_version"):
        added = added.set_column(added.column_names.index(name), name, current.column(name).take(at))
    return removed, added


def _identities(files: pa.Table) -> pa.ChunkedArray:
    """One text per file and vector."""
    vectors = pa.chunked_array([pc.struct_field(chunk, "id") for chunk in files.column("dv").chunks], pa.string())
    return pc.binary_join_element_wise(files.column("key"), pc.fill_null(vectors, ""), "\x1f")
