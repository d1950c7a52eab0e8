"""Drops a table feature: removes its traces from the table, then the feature from the protocol.

1. Each round reads the newest version, decides what is left to do, and commits that on top of this very version; a
   lost race changes only the version to read. So nobody uses the feature again between the last check and the commit.
2. Nothing is remembered between runs: a run that stopped leaves a valid table with or without the feature, and the
   next run continues.
3. Where readers must know the feature, old versions stay readable: a checkpoint without its traces stands before the
   commit that drops it, and the table asks writers to keep it (`checkpointProtection`). Truncating history instead
   waits until the commits with traces may be deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged, Invalid, LimitReached, TableError
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.commit.restamp import described
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.history.pins import pins_of
from holdfast.formats.delta.log.actions import encode_path
from holdfast.formats.delta.log.cleanup import clean_log
from holdfast.formats.delta.log.listing import list_log
from holdfast.formats.delta.metadata import ROW_TRACKING_DOMAIN
from holdfast.formats.delta.protocol.downgrade import PROTECTION, WIDENING, is_reader_feature, refuse_undroppable
from holdfast.formats.delta.protocol.feature_usage import (
    dv_files_without_tombstone,
    hides_rows,
    history_uses,
    oldest_version,
)
from holdfast.formats.delta.protocol.features import check_writable
from holdfast.formats.delta.state import DeltaState, refresh
from holdfast.index.registry import DOMAIN as INDEX_DOMAIN
from holdfast.model.files import FileTable
from holdfast.model.mutation import STAGED, Mutation, TableDefinition
from holdfast.model.snapshot import Snapshot
from holdfast.parquet.pages.footer import columns, read_footer
from holdfast.plan.maintain.compact import Bin, whole_bins
from holdfast.plan.scan.request import partition_fields
from holdfast.schema.properties import (
    COLUMN_MAPPING_MODE,
    CONSTRAINT,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    IN_COMMIT_TIMESTAMP_VERSION,
    PROTECTED_BEFORE,
    ROW_TRACKING_SUSPENDED,
    number,
    span_ms,
    truth,
)
from holdfast.storage.arrays import mask
from holdfast.storage.open import place
from holdfast.verbs.commit.loop import ATTEMPTS
from holdfast.verbs.define import drop_feature_commits as drop_feature
from holdfast.verbs.define import properties as alter
from holdfast.verbs.define.backfill import BATCH_FILES
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.maintain.compact import rewritten
from holdfast.verbs.maintain.optimize import limits_of, purge, run_bins
from holdfast.verbs.open.delta import open_delta

TRUNCATION_RETENTION = "delta.dropFeatureTruncateHistory.retentionDuration"
_DEFAULT_RETENTION = "interval 24 hours"
_MINUTE_MS = 60_000
_READERS = 16  # footers are small and far away
_OFF_BY = {"deletionVectors": "delta.enableDeletionVectors", **dict.fromkeys(WIDENING, "delta.enableTypeWidening")}

_log = logging.getLogger(__name__)

Deed: TypeAlias = Mutation | Callable[[], object]  # a commit, or work that commits by itself


@dataclass(frozen=True, slots=True)
class Dropped:
    """What dropping a feature did: the version that is without it, and all its commits."""

    version: int
    commits: int


def drop_feature_support(state: DeltaState, name: str, caller: ExecutionContext, *, truncate: bool = False) -> Dropped:
    """Take a feature out of a table."""
    location = state.snapshot.location
    check_writable(state.protocol, table=location.url)
    refuse_undroppable(state.protocol, name, truncates=truncate)
    run = _FeatureDrop(state, name, caller)
    for _ in range(ATTEMPTS):
        cleaned = run.clean()
        if truncate:
            _truncate(run.state, name, caller, cleaned=cleaned)
        if (version := run.attempt(_last(run.state, name, caller, truncates=truncate))) is not None:
            return Dropped(version, run.commits)
    raise LimitReached(f"lost {ATTEMPTS} races in a row on {location.url}; try again when fewer writers are at work")


def _last(state: DeltaState, name: str, caller: ExecutionContext, *, truncates: bool) -> Mutation:
    """The commit that drops a feature of which this version has no trace."""
    shape, retired = DeltaFormat.definition_of(state), list[str]()
    if is_reader_feature(name) and not truncates:
        write_checkpoint(state, caller.env, policy="classic")
        protected = {PROTECTED_BEFORE: str(state.version + 1)}
        shape = replace(shape, properties={**shape.properties, **protected}, features=frozenset((PROTECTION,)))
    if name == PROTECTION:
        shape = replace(shape, properties={k: v for k, v in shape.properties.items() if k != PROTECTED_BEFORE})
    if name == "rowTracking":
        retired = [domain for domain in state.domains if domain == ROW_TRACKING_DOMAIN or _is_index(domain)]
    return drop_feature.dropped(shape, name, truncates=truncates, retired=retired)


@dataclass
class _FeatureDrop:
    """A feature on its way out of a table."""

    state: DeltaState
    name: str
    caller: ExecutionContext
    commits: int = 0
    written: list[tuple[Bin, pa.Table]] = field(default_factory=list)  # files in their new form, and of which
    written_as: TableDefinition | None = None
    lost: bool = False  # a race, so that whoever won may have been a vacuum

    def clean(self) -> bool:
        """Take all traces out; whether there were any."""
        has_traces = False
        for _ in range(ATTEMPTS):
            deed = self._next()
            if deed is None:
                return has_traces
            has_traces = True
            if isinstance(deed, Mutation):
                self.attempt(deed)
                continue
            before = self.state.version
            deed()
            self.state = refresh(self.state)
            if self.state.version == before:
                url = self.state.snapshot.location.url
                raise Damaged(f"files of {url} that use {self.name} cannot be written anew: run check()", path=url)
            self.commits += self.state.version - before
        raise LimitReached(f"other writers use {self.name} again and again: try again when fewer are at work")

    def attempt(self, mutation: Mutation) -> int | None:
        """Commit on top of the version that was looked at; None where another writer was there first."""
        landed = open_delta(self.state).commit_next(mutation, self.caller.env, vacuumed=self.lost)
        self.lost = self.lost or landed is None
        self.commits += landed is not None
        self.state = refresh(self.state)
        if landed is not None and mutation.drops and self.state.version == landed:
            self._checkpoint()
        return landed

    def _checkpoint(self) -> None:
        """A checkpoint for who knows less than before; without it they start before the commit that dropped it."""
        try:
            write_checkpoint(self.state, self.caller.env)
        except TableError as error:
            url, version = self.state.snapshot.location.url, self.state.version
            _log.warning("version %s of %s is without %s, and has no checkpoint: %s", version, url, self.name, error)

    def _next(self) -> Deed | None:
        """What has to be done first; None where nothing is left but to drop the feature."""
        state, name = self.state, self.name
        shape, properties = DeltaFormat.definition_of(state), state.metadata.properties
        if (switch := _OFF_BY.get(name)) is not None and switch in properties:
            return alter.unset_properties(state.snapshot, shape, [switch], if_exists=True)
        match name:
            case "deletionVectors" if hides_rows(state):
                table = open_delta(state)
                return lambda: purge(table, self.caller, limits_of(table))
            case "deletionVectors" if keys := dv_files_without_tombstone(state):
                return drop_feature.entombed(keys, [encode_path(key) for key in keys])
            case "rowTracking" if not truth(properties.get(ROW_TRACKING_SUSPENDED)):
                return drop_feature.suspended(shape)
            case "rowTracking" if len(stamped := _stamped(state.snapshot)):
                return drop_feature.unstamped(described(stamped), self.commits)
            case "v2Checkpoint" if properties.get("delta.checkpointPolicy", "classic").lower() == "v2":
                return alter.set_properties(state.snapshot, shape, {"delta.checkpointPolicy": "classic"})
            case "columnMapping" if properties.get(COLUMN_MAPPING_MODE, "none").lower() != "none":
                return self._unmapped(shape)
            case "inCommitTimestamp" if {ENABLE_IN_COMMIT_TIMESTAMPS, IN_COMMIT_TIMESTAMP_VERSION} & properties.keys():
                return alter.unset_properties(state.snapshot, shape, [ENABLE_IN_COMMIT_TIMESTAMPS], if_exists=True)
            case "typeWidening" | "typeWidening-preview" if drop_feature.is_widened(shape.schema):
                bins = self._bins(_of_old_types(state.snapshot))
                if bins:
                    return lambda: run_bins(open_delta(state), bins, self.caller, purges=True)
                return drop_feature.unwidened(shape)
            case "checkConstraints" if named := [k.removeprefix(CONSTRAINT) for k in properties if _is_constraint(k)]:
                raise Invalid(
                    f"the table has the constraints {', '.join(named)}: drop them first, with DROP CONSTRAINT"
                )
            case "domainMetadata" if pins := pins_of(state):
                raise Invalid(f"versions are pinned as {', '.join(pins)}, which the table keeps in domains: unpin them")
            case "domainMetadata" if state.domains:
                return Mutation("DOMAIN METADATA CLEANUP", domains=dict.fromkeys(state.domains))
            case _:
                return None

    def _unmapped(self, shape: TableDefinition) -> Mutation:
        """Every file with its columns under their names; what a lost race leaves of it is not written again."""
        state, caller = self.state, self.caller
        new = drop_feature.unmapped_shape(shape)
        if new != self.written_as:
            self.written, self.written_as = [], new
        self.written = [(each, staged) for each, staged in self.written if _is_there(each, state.snapshot)]
        done = [key for each, _ in self.written for key in each.keys]
        store = DeltaFormat.storing(state, new)
        for each in self._bins(state.snapshot.files.outside(pa.array(done, pa.string()))):
            staged = rewritten(state.snapshot, each, caller.engine, load_hidden, store)
            self.written.append((each, staged))
        retired = [domain for domain in state.domains if _is_index(domain)]
        files = pa.concat_tables([STAGED.empty_table(), *(staged for _, staged in self.written)])
        return drop_feature.unmapped(state.snapshot, files, new, retired)

    def _bins(self, files: FileTable) -> tuple[Bin, ...]:
        """Every file, in bins; one whose rows the log does not count stands alone."""
        names = [f.physical_name for f in partition_fields(self.state.snapshot)]
        bins = whole_bins(files, names, limits_of(open_delta(self.state)))
        taken = [key for each in bins for key in each.keys]
        rest = files.outside(pa.array(taken, pa.string()))
        alone = [rest.filter(mask(np.arange(len(rest)) == at)) for at in range(len(rest))]
        return (*bins, *(Bin(each, 0, each.column("size")[0].as_py(), "it is written anew") for each in alone))


def _truncate(state: DeltaState, name: str, caller: ExecutionContext, *, cleaned: bool) -> None:
    """Forget what is old enough to be forgotten; refused while what is left has traces of the feature."""
    properties, env = state.metadata.properties, caller.env
    retention = properties.get(TRUNCATION_RETENTION, _DEFAULT_RETENTION)
    write_checkpoint(state, env, policy="classic")
    upto = (env.now_ms() - span_ms(TRUNCATION_RETENTION, retention)) // _MINUTE_MS * _MINUTE_MS
    if not cleaned:
        clean_log(state, env, upto_ms=upto)
    oldest = oldest_version(list_log(state.snapshot.location))
    protected = number(PROTECTED_BEFORE, properties.get(PROTECTED_BEFORE, "0")) if name == PROTECTION else 0
    if not (cleaned or oldest < protected or history_uses(state, name)):
        return
    pins = pins_of(state)
    held = f", and while versions are pinned as {', '.join(pins)}" if pins else ""
    raise Invalid(
        f"the newest version has no trace of {name} left, but versions from {oldest} on can be read that have: they "
        f"are kept for {retention.lower().removeprefix('interval').strip()} ({TRUNCATION_RETENTION}){held}; repeat "
        "this when they have expired"
    )


def _stamped(snapshot: Snapshot) -> FileTable:
    """Files that have row ids, as many as one commit takes."""
    has = np.flatnonzero(np.asarray(pc.is_valid(snapshot.files.column("base_row_id"))))
    chosen = np.zeros(len(snapshot.files), bool)
    chosen[has[:BATCH_FILES]] = True
    return snapshot.files.filter(mask(chosen))


def _of_old_types(snapshot: Snapshot) -> FileTable:
    """Files that have values in types that their columns had once: one footer is read of each."""
    files, location = snapshot.files, snapshot.location

    def is_old(pair: tuple[str, int]) -> bool:
        store, name = place(location, pair[0])
        footer = read_footer(store, name, pair[1])
        return drop_feature.has_old_types(snapshot.schema, columns(footer.schema.to_arrow_schema()))

    pairs = zip(files.column("key").to_pylist(), files.column("size").to_pylist(), strict=True)  # one per file
    with ThreadPoolExecutor(_READERS) as pool:
        return files.filter(mask(np.fromiter(pool.map(is_old, pairs), bool, len(files))))


def _is_there(each: Bin, now: Snapshot) -> bool:
    """Whether the files of a bin are in the table as they were, hiding what they hid."""
    same = now.files.among(each.keys).table.select(["key", "dv"]).sort_by("key")
    return bool(same.combine_chunks() == each.files.table.select(["key", "dv"]).sort_by("key").combine_chunks())


def _is_index(domain: str) -> bool:
    return domain.startswith(INDEX_DOMAIN)


def _is_constraint(name: str) -> bool:
    return name.startswith(CONSTRAINT)
