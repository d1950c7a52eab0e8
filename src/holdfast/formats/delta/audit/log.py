"""A log checked against itself: commits, checkpoints, the hint, the checksum, and what commits did to each other.

One walk over the commits, oldest first, keeps the state they lead to; each checkpoint on the way is compared with it.

1. Where the first commits are gone, the walk starts from the oldest checkpoint that can be read, which then cannot be
   compared with anything.
2. After a commit that is missing or cannot be read the walk goes on from the next checkpoint.
3. Nothing is written, and what cannot be read is a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged
from holdfast.formats.delta.audit.compacted import wrong_compactions
from holdfast.formats.delta.audit.history import FileHistory, vector_keys
from holdfast.formats.delta.checkpoint.checksum import (
    VersionChecksum,
    configurations,
    contradictions,
    demands,
    miscounts,
    same_json,
    stored_checksum,
)
from holdfast.formats.delta.checkpoint.last_checkpoint import Hint, stored_hint
from holdfast.formats.delta.checkpoint.reader import read_checkpoint
from holdfast.formats.delta.log.actions import Line, decode_lines
from holdfast.formats.delta.log.columns import logical_ids
from holdfast.formats.delta.log.file_names import LAST_CHECKPOINT, LOG, checksum_name, commit_name
from holdfast.formats.delta.log.listing import list_all, log_url, read_bytes
from holdfast.formats.delta.log.replay import ActionLayer, LiveFiles, layer_from, push_layer
from holdfast.formats.delta.log.segment import Checkpoint, LogListing
from holdfast.formats.delta.log.settings import CompleteSettings, TableSettings, fold
from holdfast.formats.delta.log.stated_counts import count, hint_miscounts
from holdfast.formats.delta.log.tombstones import tombstones
from holdfast.formats.delta.state import DeltaState
from holdfast.model.files import FileTable, Slab
from holdfast.model.finding import Finding, FindingKind, listed
from holdfast.schema.types import leaves
from holdfast.storage.arrays import strings
from holdfast.storage.base import ObjectMeta
from holdfast.storage.location import Location

_COMPARED = ("size", "base_row_id", "default_row_commit_version")


@dataclass(frozen=True, slots=True)
class LogChecked:
    """What was found in a log, and what a repair would go by."""

    findings: tuple[Finding, ...]
    spoken_of: pa.Array  # keys of every data file, change file and file of vectors the log refers to
    broken: tuple[Checkpoint, ...] = ()  # cannot be read
    wrong: tuple[Checkpoint, ...] = ()  # contradict the commits, all of which are there
    compacted: tuple[ObjectMeta, ...] = ()  # likewise, or cannot be read
    bad_hint: bool = False
    bad_checksum: bool = False  # or none


@dataclass(frozen=True, slots=True)
class _Trusted:
    """The table at a version, as its commits make it."""

    settings: TableSettings
    base: tuple[Slab, ...] = ()
    layers: tuple[ActionLayer, ...] = ()
    whole: bool = True  # from the first commit on; else from a checkpoint, which may itself be wrong

    def after(self, lines: list[Line], location: Location) -> _Trusted:
        layers = push_layer(self.layers, layer_from(lines, location))
        return replace(self, settings=fold(self.settings, lines), layers=layers)

    @property
    def files(self) -> FileTable:
        return LiveFiles(self.base, self.layers)


def check_log(state: DeltaState) -> LogChecked:
    """Check the log of a table that can be opened."""
    location = state.snapshot.location
    listing = list_all(location).listing
    walk = _CommitWalk(location, listing)
    walk.run()
    compacted = dict(wrong_compactions(location, listing))
    hint = list(_hint(location, listing, (*walk.broken, *walk.wrong)))
    checksum = list(_checksum(state, listing))
    clustering = list(_lost_clustering(state))
    live = state.snapshot.files
    spoken = [
        *walk.history.keys,
        live.column("key").combine_chunks(),
        tombstones(state).column("key").combine_chunks(),
        strings(sorted(vector_keys(location, live.table))),
    ]
    findings = [*walk.findings, *listed(walk.history.findings()), *compacted.values(), *hint, *checksum, *clustering]
    return LogChecked(
        tuple(findings),
        pa.concat_arrays([array.cast(pa.string()) for array in spoken]),
        tuple(walk.broken),
        tuple(walk.wrong),
        tuple(compacted),
        bool(hint),
        bool(checksum),
    )


class _CommitWalk:
    """The walk over the commits; findings are gathered on the way."""

    def __init__(self, location: Location, listing: LogListing) -> None:
        self.location = location
        self.listing = listing
        self.history = FileHistory(location)
        self.findings: list[Finding] = []
        self.broken: list[Checkpoint] = []
        self.wrong: list[Checkpoint] = []
        self._trusted: _Trusted | None = _Trusted(TableSettings()) if 0 in listing.commits else None
        self._checkpoints: dict[int, list[Checkpoint]] = {}
        for checkpoint in listing.checkpoints:
            self._checkpoints.setdefault(checkpoint.version, []).append(checkpoint)

    def run(self) -> None:
        commits = self.listing.commits
        oldest = min(commits, default=None)
        bodies = read_bytes(self.location, [commits[version] for version in sorted(commits)])
        for version in sorted({*commits, *self._checkpoints, *_holes(commits)}):
            if version in commits:
                self._commit(version, next(bodies)[1])
            elif oldest is not None and version > oldest:
                self._trusted = None
                self._found(FindingKind.MISSING_COMMIT, f"the commit of version {version} is not there", version)
            for checkpoint in self._checkpoints.get(version, ()):
                self._checkpoint(checkpoint)

    def _commit(self, version: int, data: bytes) -> None:
        try:
            lines = decode_lines(data, where=f"{log_url(self.location)}/{commit_name(version)}")
        except Damaged as error:
            self._trusted = None
            self._found(FindingKind.BAD_COMMIT, str(error), version)
            return
        self.history.saw(version, lines)
        if self._trusted is not None:
            self._trusted = self._trusted.after(lines, self.location.anywhere)

    def _checkpoint(self, checkpoint: Checkpoint) -> None:
        repair = "writes one in its place, from the commits"
        try:
            contents = read_checkpoint(self.location.anywhere, checkpoint)
            settings, slabs = contents.settings, contents.slabs
        except Damaged as error:
            self.broken.append(checkpoint)
            self._found(FindingKind.BAD_CHECKPOINT, str(error), checkpoint.version, checkpoint.name, repair)
            return
        if self._trusted is None:
            self._trusted = _Trusted(settings, slabs, whole=False)
            self.history.starts(checkpoint.version, FileTable(slabs))
            return
        differing = [*_settings_differ(settings, self._trusted.settings), *_files_differ(slabs, self._trusted.files)]
        if differing:
            what = f"the checkpoint {checkpoint.name} {' and '.join(differing)}"
            if self._trusted.whole:
                self.wrong.append(checkpoint)
            else:
                what += ", counted from an older checkpoint: one of the two is wrong"
            repair_of = repair if self._trusted.whole else None
            self._found(FindingKind.WRONG_CHECKPOINT, what, checkpoint.version, checkpoint.name, repair_of)

    def _found(
        self, kind: FindingKind, what: str, version: int, name: str | None = None, repair: str | None = None
    ) -> None:
        name = name or commit_name(version)
        self.findings.append(Finding(kind, what, file=f"{LOG}/{name}", version=version, repair=repair))


def _holes(commits: Mapping[int, object]) -> range | list[int]:
    """Versions without a commit between the first that has one and the last."""
    if not commits or max(commits) - min(commits) + 1 == len(commits):
        return []
    return [version for version in range(min(commits), max(commits)) if version not in commits]


def _settings_differ(told: TableSettings, known: TableSettings) -> Iterator[str]:
    """What a checkpoint says otherwise than its commits. Application versions may have expired."""
    if told.protocol is None or known.protocol is None or demands(told.protocol) != demands(known.protocol):
        yield "has another protocol than the commits"
    one, other = told.metadata, known.metadata
    if one is None or other is None:
        yield "has no metadata"
    elif (one.id, one.partition_columns or (), one.properties) != (
        other.id,
        other.partition_columns or (),
        other.properties,
    ) or not same_json(one.schema_string, other.schema_string):
        yield "has other metadata than the commits"
    if configurations(told.domains) != configurations(known.domains):
        yield "has other domain metadata than the commits"
    if any(app not in known.txns or known.txns[app].version != txn.version for app, txn in told.txns.items()):
        yield "has other application versions than the commits"


def _files_differ(slabs: tuple[Slab, ...], known: FileTable) -> Iterator[str]:
    told = FileTable(slabs).table
    ours, theirs = _ids(told), _ids(known.table)
    lacking = theirs.filter(pc.invert(pc.is_in(theirs, value_set=ours)))
    beyond = ours.filter(pc.invert(pc.is_in(ours, value_set=theirs)))
    if len(lacking):
        yield f"lacks {len(lacking)} files, such as {_key(lacking)}"
    if len(beyond):
        yield f"has {len(beyond)} files too many, such as {_key(beyond)}"
    if len(ours) != pc.count_distinct(ours).as_py():
        yield "has a file twice"
    elif not len(lacking) and not len(beyond):
        at = pc.index_in(theirs, value_set=ours)
        for name in _COMPARED:
            same = pc.equal(pc.fill_null(told.column(name).take(at), -1), pc.fill_null(known.column(name), -1))
            if not pc.all(same, min_count=0).as_py():
                yield f"says otherwise of the {name} of {_key(theirs.filter(pc.invert(same.combine_chunks())))}"


def _ids(files: pa.Table) -> pa.Array:
    vectors = pc.struct_field(files.column("dv").combine_chunks(), "id")
    return logical_ids(files.column("key").combine_chunks(), vectors)


def _key(ids: pa.Array) -> str:
    return str(ids[0].as_py()).partition("\0")[0]


def _hint(location: Location, listing: LogListing, bad: tuple[Checkpoint, ...]) -> Iterator[Finding]:
    hint = stored_hint(location)
    if hint is None:
        return
    what = None
    if not isinstance(hint, Hint):
        what = hint
    elif not any(c.version == hint.version for c in listing.checkpoints):
        what = f"points to version {hint.version}, which has no complete checkpoint"
    else:
        good = [c for c in listing.checkpoints if c.version == hint.version and c not in bad]
        counted = (s for c in good for s in hint_miscounts(hint, c, read_checkpoint(location.anywhere, c)))
        what = next((f"says {otherwise} in the checkpoint of version {hint.version}" for otherwise in counted), None)
    if what is not None:
        yield Finding(
            FindingKind.BAD_HINT,
            f"{LAST_CHECKPOINT} {what}: every reader reads more of the log than it must",
            file=f"{LOG}/{LAST_CHECKPOINT}",
            repair="points it to the newest checkpoint that can be read, or takes it away without any",
        )


def _checksum(state: DeltaState, listing: LogListing) -> Iterator[Finding]:
    """What the newest version's checksum says otherwise, or that there is none."""
    location, version = state.snapshot.location, state.version
    file = f"{LOG}/{checksum_name(version)}"
    if state.commit is None:
        return
    if version not in listing.checksums:
        yield Finding(FindingKind.NO_CHECKSUM, f"version {version} has no checksum", file, version, "writes it")
        return
    told = stored_checksum(location, listing.checksums[version])
    settings = CompleteSettings(state.protocol, state.metadata, state.txns, state.domains)
    wrong = (
        [told]
        if isinstance(told, str)
        else [*miscounts(told, count(state.snapshot.files)), *contradictions(told, settings)]
    )
    if wrong:
        said = " and ".join(wrong)
        what = (
            f"the checksum of version {version} says {said}" if isinstance(told, VersionChecksum) else f"{file} {said}"
        )
        yield Finding(FindingKind.BAD_CHECKSUM, what, file, version, "writes it anew")


def _lost_clustering(state: DeltaState) -> Iterator[Finding]:
    """Columns the table is clustered by and does not have."""
    schema = state.snapshot.schema
    there = {tuple(f.physical_name for f in path) for path, _ in leaves(schema)}
    for path in state.snapshot.clustering_columns:
        if path not in there:
            yield Finding(
                FindingKind.LOST_CLUSTERING,
                f"the table is clustered by {'.'.join(path)}, which is none of its columns: ALTER TABLE ... CLUSTER BY "
                "says what to cluster by instead, or NONE",
                version=state.version,
            )
