"""Checks a log against itself: commits, checkpoints, compactions, the hint and the checksum file.

One pass over the commits, oldest first, replays the state; each checkpoint is compared with it.

1. Where the first commits are missing, the pass starts from the oldest readable checkpoint, which is not checked.
2. After a commit that is missing or unreadable the pass continues from the next checkpoint.
3. Nothing is written, and an unreadable file is a finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged
from holdfast.formats.delta.audit.compacted import wrong_compactions
from holdfast.formats.delta.audit.history import FileHistory, dv_file_keys
from holdfast.formats.delta.checkpoint.checksum import (
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
from holdfast.formats.delta.log.columns import table_ids
from holdfast.formats.delta.log.file_names import LAST_CHECKPOINT, LOG, checksum_name, commit_name
from holdfast.formats.delta.log.listing import list_all, log_url, read_bytes
from holdfast.formats.delta.log.replay import ActionLayer, LiveFiles, layer_from, push_layer
from holdfast.formats.delta.log.segment import Checkpoint, LogListing
from holdfast.formats.delta.log.settings import TableSettings, complete, fold
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
    """The findings in a log, and what a repair needs."""

    findings: tuple[Finding, ...]
    referenced: pa.Array  # keys of every data file, change file and deletion vector file that the log names
    broken: tuple[Checkpoint, ...] = ()  # unreadable
    wrong: tuple[Checkpoint, ...] = ()  # contradict the commits, of which none is missing
    compacted: tuple[ObjectMeta, ...] = ()  # contradict the commits, or unreadable
    bad_hint: bool = False
    bad_checksum: bool = False  # or missing


@dataclass(frozen=True, slots=True)
class _ReplayedState:
    """The table at a version, replayed from its commits."""

    settings: TableSettings
    base: tuple[Slab, ...] = ()
    layers: tuple[ActionLayer, ...] = ()
    whole: bool = True  # from the first commit on, not from a checkpoint, which may be wrong itself

    def after(self, lines: list[Line], location: Location) -> _ReplayedState:
        layers = push_layer(self.layers, layer_from(lines, location))
        return replace(self, settings=fold(self.settings, lines), layers=layers)

    @property
    def files(self) -> FileTable:
        return LiveFiles(self.base, self.layers)


def check_log(state: DeltaState) -> LogChecked:
    """Checks the log of a table that can be opened."""
    location = state.snapshot.location
    listing = list_all(location).listing
    commits = _CommitPass(location, listing)
    commits.run()
    compacted = dict(wrong_compactions(location, listing))
    hint = list(_hint(location, listing, (*commits.broken, *commits.wrong)))
    checksum = list(_checksum(state, listing))
    clustering = list(_lost_clustering(state))
    live = state.snapshot.files
    referenced = [
        *commits.history.keys,
        live.column("key").combine_chunks(),
        tombstones(state).column("key").combine_chunks(),
        strings(sorted(dv_file_keys(location, live.table))),
    ]
    findings = [
        *commits.findings,
        *listed(commits.history.findings()),
        *compacted.values(),
        *hint,
        *checksum,
        *clustering,
    ]
    return LogChecked(
        tuple(findings),
        pa.concat_arrays([array.cast(pa.string()) for array in referenced]),
        tuple(commits.broken),
        tuple(commits.wrong),
        tuple(compacted),
        bool(hint),
        bool(checksum),
    )


class _CommitPass:
    """The pass over the commits, which collects findings."""

    def __init__(self, location: Location, listing: LogListing) -> None:
        self.location = location
        self.listing = listing
        self.history = FileHistory(location)
        self.findings: list[Finding] = []
        self.broken: list[Checkpoint] = []
        self.wrong: list[Checkpoint] = []
        self._state: _ReplayedState | None = _ReplayedState(TableSettings()) if 0 in listing.commits else None
        self._checkpoints: dict[int, list[Checkpoint]] = {}
        for checkpoint in listing.checkpoints:
            self._checkpoints.setdefault(checkpoint.version, []).append(checkpoint)

    def run(self) -> None:
        commits = self.listing.commits
        oldest = min(commits, default=None)
        bodies = read_bytes(self.location, [commits[version] for version in sorted(commits)])
        without_gaps = range(min(commits), max(commits)) if commits else ()
        for version in sorted({*commits, *self._checkpoints, *without_gaps}):
            if version in commits:
                self._commit(version, next(bodies)[1])
            elif oldest is not None and version > oldest:
                self._state = None
                self._report(FindingKind.MISSING_COMMIT, f"the commit of version {version} is not there", version)
            for checkpoint in self._checkpoints.get(version, ()):
                self._checkpoint(checkpoint)

    def _commit(self, version: int, data: bytes) -> None:
        try:
            lines = decode_lines(data, where=f"{log_url(self.location)}/{commit_name(version)}")
        except Damaged as error:
            self._state = None
            self._report(FindingKind.BAD_COMMIT, str(error), version)
            return
        self.history.add_commit(version, lines)
        if self._state is not None:
            self._state = self._state.after(lines, self.location.anywhere)

    def _checkpoint(self, checkpoint: Checkpoint) -> None:
        repair = "writes one in its place, from the commits"
        try:
            contents = read_checkpoint(self.location.anywhere, checkpoint)
            settings, slabs = contents.settings, contents.slabs
        except Damaged as error:
            self.broken.append(checkpoint)
            self._report(FindingKind.BAD_CHECKPOINT, str(error), checkpoint.version, checkpoint.name, repair)
            return
        if self._state is None:
            self._state = _ReplayedState(settings, slabs, whole=False)
            self.history.starts(checkpoint.version, FileTable(slabs))
            return
        differences = [*_settings_differ(settings, self._state.settings), *_files_differ(slabs, self._state.files)]
        if differences:
            message = f"the checkpoint {checkpoint.name} {' and '.join(differences)}"
            if self._state.whole:
                self.wrong.append(checkpoint)
            else:
                message += ", counted from an older checkpoint: one of the two is wrong"
            possible_repair = repair if self._state.whole else None
            self._report(FindingKind.WRONG_CHECKPOINT, message, checkpoint.version, checkpoint.name, possible_repair)

    def _report(
        self, kind: FindingKind, message: str, version: int, name: str | None = None, repair: str | None = None
    ) -> None:
        file = f"{LOG}/{name or commit_name(version)}"
        self.findings.append(Finding(kind, message, file=file, version=version, repair=repair))


def _settings_differ(settings: TableSettings, expected: TableSettings) -> Iterator[str]:
    """How the settings of a checkpoint differ from its commits; application versions may have expired."""
    protocol, other_protocol = settings.protocol, expected.protocol
    if protocol is None or other_protocol is None or demands(protocol) != demands(other_protocol):
        yield "has another protocol than the commits"
    one, other = settings.metadata, expected.metadata
    if one is None or other is None:
        yield "has no metadata"
    elif (one.id, one.partition_columns or (), one.properties) != (
        other.id,
        other.partition_columns or (),
        other.properties,
    ) or not same_json(one.schema_string, other.schema_string):
        yield "has other metadata than the commits"
    if configurations(settings.domains) != configurations(expected.domains):
        yield "has other domain metadata than the commits"
    if any(app not in expected.txns or expected.txns[app].version != txn.version for app, txn in settings.txns.items()):
        yield "has other application versions than the commits"


def _files_differ(slabs: tuple[Slab, ...], expected: FileTable) -> Iterator[str]:
    files = FileTable(slabs).table
    ours, theirs = table_ids(files), table_ids(expected.table)
    lacking = theirs.filter(pc.invert(pc.is_in(theirs, value_set=ours)))
    extra = ours.filter(pc.invert(pc.is_in(ours, value_set=theirs)))
    if len(lacking):
        yield f"lacks {len(lacking)} files, such as {_key(lacking)}"
    if len(extra):
        yield f"has {len(extra)} files too many, such as {_key(extra)}"
    if len(ours) != pc.count_distinct(ours).as_py():
        yield "has a file twice"
    elif not len(lacking) and not len(extra):
        at = pc.index_in(theirs, value_set=ours)
        for name in _COMPARED:
            same = pc.equal(pc.fill_null(files.column(name).take(at), -1), pc.fill_null(expected.column(name), -1))
            if not pc.all(same, min_count=0).as_py():
                yield f"says otherwise of the {name} of {_key(theirs.filter(pc.invert(same.combine_chunks())))}"


def _key(ids: pa.Array) -> str:
    return str(ids[0].as_py()).partition("\0")[0]


def _hint(location: Location, listing: LogListing, bad: tuple[Checkpoint, ...]) -> Iterator[Finding]:
    hint = stored_hint(location)
    if hint is None:
        return
    problem = None
    if not isinstance(hint, Hint):
        problem = hint
    elif not any(c.version == hint.version for c in listing.checkpoints):
        problem = f"points to version {hint.version}, which has no complete checkpoint"
    else:
        checkpoints = [c for c in listing.checkpoints if c.version == hint.version and c not in bad]
        differences = (s for c in checkpoints for s in hint_miscounts(hint, c, read_checkpoint(location.anywhere, c)))
        problem = next(
            (f"says {difference} in the checkpoint of version {hint.version}" for difference in differences), None
        )
    if problem is not None:
        yield Finding(
            FindingKind.BAD_HINT,
            f"{LAST_CHECKPOINT} {problem}: every reader reads more of the log than it must",
            file=f"{LOG}/{LAST_CHECKPOINT}",
            repair="points it to the newest checkpoint that can be read, or takes it away without any",
        )


def _checksum(state: DeltaState, listing: LogListing) -> Iterator[Finding]:
    """The contradictions of the newest version's checksum file, or that it is missing."""
    location, version = state.snapshot.location, state.version
    file = f"{LOG}/{checksum_name(version)}"
    if state.commit is None:
        return
    if version not in listing.checksums:
        yield Finding(FindingKind.NO_CHECKSUM, f"version {version} has no checksum", file, version, "writes it")
        return
    checksum = stored_checksum(location, listing.checksums[version])
    if isinstance(checksum, str):
        yield Finding(FindingKind.BAD_CHECKSUM, f"{file} {checksum}", file, version, "writes it anew")
        return
    wrong_settings = contradictions(checksum, complete(state.settings))
    differences = [*miscounts(checksum, count(state.snapshot.files)), *wrong_settings]
    if differences:
        message = f"the checksum of version {version} says {' and '.join(differences)}"
        yield Finding(FindingKind.BAD_CHECKSUM, message, file, version, "writes it anew")


def _lost_clustering(state: DeltaState) -> Iterator[Finding]:
    """Clustering columns that the table does not have."""
    columns = {tuple(f.physical_name for f in path) for path, _ in leaves(state.snapshot.schema)}
    for path in state.snapshot.clustering_columns:
        if path not in columns:
            yield Finding(
                FindingKind.LOST_CLUSTERING,
                f"the table is clustered by {'.'.join(path)}, which is none of its columns: ALTER TABLE ... CLUSTER BY "
                "says what to cluster by instead, or NONE",
                version=state.version,
            )
