"""The judge of a simulation: the log, read without Holdfast's reader, against what its writers were told.

    commits -> the rows of every version, ids and all -> each version is its verb done to the version before

1. The serial order is that of the commits: a version equals the pure function of its verb on the one before, row by
   row, ids and versions included.
2. Ids are unique, never given out again, and the mark never falls.
3. Whoever was told that a verb is done finds it in the log once, whoever was told that it is not finds it nowhere, and
   whoever was told nothing finds it once at most.
4. A verb that was refused had met rows that others changed meanwhile, or would have met rows that came.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast import DeltaTable
from holdfast.errors import ConcurrentWrite, OutcomeUnknown, Unavailable
from holdfast.formats.delta.deletion_vectors import dv_file
from holdfast.formats.delta.log.file_names import LOG, commit_name
from holdfast.rows import bitmap
from holdfast.storage.base import NotFound, ObjectStore
from holdfast.storage.location import Location
from tests.support.faulty import Crash
from tests.support.simulation_verbs import Append, Applied, Change, Restore, Row, Upkeep, Verb, partition

MARK = "delta.rowTracking"


@dataclass(frozen=True)
class State:
    """A version."""

    info: Mapping[str, Any]
    rows: tuple[Row, ...]
    tracked: bool
    hides: bool
    high_water: int
    moves: bool  # it wrote or stamped files, and changed no row

    @property
    def tag(self) -> str | None:
        return self.info.get("userMetadata")

    @property
    def operation(self) -> str:
        return str(self.info["operation"])


@dataclass
class Ledger:
    """All versions of a table so far, folded from its commits."""

    states: list[State] = field(default_factory=list)
    live: dict[str, dict[str, Any]] = field(default_factory=dict)
    data: dict[str, tuple[list[Any], ...]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    high_water: int = -1

    def copy(self) -> Ledger:
        return Ledger(list(self.states), dict(self.live), dict(self.data), self.properties, self.high_water)

    def read(self, location: Location) -> Ledger:
        """Take in commits that came since."""
        while True:
            try:
                body = location.store.get(location.key(LOG, commit_name(len(self.states))))
            except NotFound:
                return self
            self._fold(location, [json.loads(line) for line in body.splitlines()])

    def _fold(self, location: Location, lines: Sequence[dict[str, Any]]) -> None:
        info, moves = {}, False
        for line in lines:
            ((kind, action),) = line.items()
            match kind:
                case "commitInfo":
                    info = action
                case "metaData":
                    self.properties = action["configuration"]
                case "remove":
                    gone = self.live.pop(action["path"], None)
                    assert gone is not None, f"{action['path']} is removed, and it is not there"
                    assert _vector_id(gone) == _vector_id(action), f"{action['path']} is removed with another vector"
                    assert gone.get("baseRowId") == action.get("baseRowId"), (
                        f"{action['path']} is removed with other ids"
                    )
                case "domainMetadata" if action["domain"] == MARK:
                    mark = json.loads(action["configuration"])["rowIdHighWaterMark"]
                    assert mark >= self.high_water, f"the mark falls from {self.high_water} to {mark}"
                    self.high_water = mark
        for line in lines:
            if "add" in line:
                action = line["add"]
                old = self.live.get(action["path"])
                assert old is None or old.get("baseRowId") is None, f"{action['path']} is added, and it is there"
                self.live[action["path"]] = action
                moves |= not action["dataChange"]
        tracked = self.properties.get("delta.enableRowTracking") == "true"
        hides = self.properties.get("delta.enableDeletionVectors") == "true"
        rows = tuple(row for path in self.live for row in self._rows(location, path, tracked))
        self.states.append(State(info, rows, tracked, hides, self.high_water, moves))

    def _rows(self, location: Location, path: str, tracked: bool) -> list[Row]:
        add, store = self.live[path], location.store
        if path not in self.data:
            self.data[path] = _columns(store, location.key(unquote(path)), self.properties)
        keys, values, ids, versions = self.data[path]
        hidden = _hidden(location, add)
        values_of_partition = {partition(k) for k in keys}
        if add["partitionValues"]:
            assert {add["partitionValues"]["p"]} >= values_of_partition, (
                f"{path} is in a partition it does not belong to"
            )
        if not tracked:
            return [Row(k, v) for at, (k, v) in enumerate(zip(keys, values, strict=True)) if at not in hidden]
        base, version = add["baseRowId"], add["defaultRowCommitVersion"]
        return [
            Row(k, v, base + at if id_ is None else id_, version if own is None else own)
            for at, (k, v, id_, own) in enumerate(zip(keys, values, ids, versions, strict=True))
            if at not in hidden
        ]


@dataclass(frozen=True)
class Told:
    """What became of a verb, as its writer was told."""

    tag: str
    verb: Verb
    read: int  # the version it read last
    ended: int  # the newest version when it ended
    done: Any = None
    error: BaseException | None = None


def audit(ledger: Ledger, first: int, told: Sequence[Told]) -> None:
    """Hold every version from `first` on, and everything that writers were told, against the model."""
    verbs = {each.tag: each.verb for each in told}
    for version in range(first, len(ledger.states)):
        _audit_version(ledger.states, version, verbs)
    landed = Counter(state.tag for state in ledger.states if state.tag is not None)
    for each in told:
        _audit_told(ledger.states, each, landed[each.tag])


def audit_reader(table: DeltaTable, ledger: Ledger) -> None:
    """Holdfast's own reader sees the last version as it was written, whatever checkpoints and files of the log say."""
    state = ledger.states[-1]
    found = table.toArrow(metadata=["_row_id", "_row_commit_version"] if state.tracked else [])
    columns = [found[name].to_pylist() for name in found.column_names if name != "p"]
    assert table.version == len(ledger.states) - 1
    assert Counter(map(Row, *columns)) == Counter(state.rows), "the reader sees other rows than the log has"


def audit_feed(table: DeltaTable, ledger: Ledger, first: int) -> None:
    """The change feed of a version tells what became of rows, no less and no more."""
    for version in range(first, len(ledger.states)):
        if ledger.states[version].operation == "RESTORE":
            continue  # it tells of files that came and went, rows that did not change among them
        then, now = ({row.id: row for row in ledger.states[v].rows} for v in (version - 1, version))
        changed = [i for i in then.keys() & now.keys() if then[i].version != now[i].version]
        expected = [("delete", then[i]) for i in then.keys() - now.keys()]
        expected += [("insert", now[i]) for i in now.keys() - then.keys()]
        expected += [("update_preimage", then[i]) for i in changed] + [("update_postimage", now[i]) for i in changed]
        found = table.changeFeed(version, version).toArrow().to_pylist()
        told = Counter((row["_change_type"], row["k"], row["v"]) for row in found)
        assert told == Counter((what, row.k, row.v) for what, row in expected), f"the feed of version {version}: {told}"


def _audit_version(states: Sequence[State], version: int, verbs: Mapping[str, Verb]) -> None:
    before, after = states[version - 1], states[version]
    where = f"version {version}, {after.operation} {after.tag or ''}"
    ids = [row.id for row in after.rows]
    if after.tracked:
        assert len(set(ids)) == len(ids), f"{where}: row ids twice"
        assert max((i for i in ids if i is not None), default=-1) <= after.high_water, f"{where}: ids above the mark"
    expected = before.rows
    if after.tag is not None:
        verb = verbs[after.tag]
        assert isinstance(verb, Append | Change), f"{where}: what is tagged changes rows"
        expected = verb.applied(before.rows).rows
    elif after.operation == "RESTORE":
        then = states[int(after.info["operationParameters"]["version"])]
        if then.tracked or not after.tracked:
            assert sorted(after.rows, key=_order) == sorted(then.rows, key=_order), f"{where}: not what was there then"
            return
        expected = then.rows
    if not (before.tracked and after.tracked) or (after.operation == "RESTORE"):
        assert _values(after.rows) == _values(expected), f"{where}: rows"
        return
    kept = {
        row.id: row if row.version is not None else row._replace(version=version)
        for row in expected
        if row.id is not None
    }
    found = {row.id: row for row in after.rows if row.id in kept}
    assert found == kept, f"{where}: {_difference(kept, found)}"
    new = [row for row in after.rows if row.id not in kept]
    assert _values(new) == _values([row for row in expected if row.id is None]), f"{where}: rows that are new"
    assert all((row.id or 0) > before.high_water for row in new), f"{where}: an id is given out again"
    assert {row.version for row in new} <= {version}, f"{where}: a new row has an old version"


def _audit_told(states: Sequence[State], told: Told, landed: int) -> None:
    where = f"{told.tag}, {told.verb}, told {told.error or told.done!r}"
    assert landed <= 1, f"{where}: is in the log {landed} times"
    match told.error:
        case None:
            _audit_done(states, told, landed, where)
        case ConcurrentWrite():
            assert not landed, f"{where}: is in the log all the same"
            assert _is_true_conflict(states, told), f"{where}: FALSE ABORT, read {told.read}, ended {told.ended}"
        case Unavailable():
            assert not landed, f"{where}: is in the log all the same"
        case other:
            assert isinstance(other, OutcomeUnknown | Crash), f"{where}: no reason to say so"


def _audit_done(states: Sequence[State], told: Told, landed: int, where: str) -> None:
    if isinstance(told.verb, Upkeep) and told.verb.kind in ("compact", "recluster", "purge") and told.done.lost:
        assert any(_takes_or_moves(states, v) for v in _meanwhile(told)), f"{where}: FALSE ABORT of {told.done.lost}"
    if not isinstance(told.verb, Append | Change):
        return
    version = told.done.version
    if version is None:
        could = (told.verb.applied(states[v].rows).is_nothing for v in range(told.read, told.ended + 1))
        assert not landed, f"{where}: is in the log all the same"
        assert any(could), f"{where}: there was something to do, from {told.read} to {told.ended}"
        return
    assert landed == 1, f"{where}: is not in the log"
    assert states[version].tag == told.tag, f"{where}: version {version} is another's"
    meant = told.verb.applied(states[version - 1].rows)
    assert _metrics(told.verb, meant).items() <= told.done.metrics.items(), f"{where}: meant {meant}"


def _metrics(verb: Append | Change, meant: Applied) -> Mapping[str, int]:
    if isinstance(verb, Append):
        return {"numOutputRows": meant.inserted}
    match verb.kind:
        case "delete":
            return {"numDeletedRows": meant.deleted}
        case "update":
            return {"numUpdatedRows": meant.updated}
    return {
        "numTargetRowsInserted": meant.inserted,
        "numTargetRowsUpdated": meant.updated,
        "numTargetRowsDeleted": meant.deleted,
    }


def _is_true_conflict(states: Sequence[State], told: Told) -> bool:
    """Whether one of the versions that came meanwhile stands in the way."""
    verb = told.verb
    if isinstance(verb, Restore):
        return any(not states[v].moves for v in _meanwhile(told))
    if not isinstance(verb, Change):
        return False
    return any(_stands_in_the_way(states, verb, told.read, v) for v in _meanwhile(told))


def _stands_in_the_way(states: Sequence[State], verb: Change, read: int, now: int) -> bool:
    then, since = states[read], states[now]
    if not (then.tracked and since.tracked and since.hides) and any(
        _takes_or_moves(states, v) for v in range(read + 1, now + 1)
    ):
        return True  # by files: rows cannot be told apart, or not be hidden where they went
    if not (then.tracked and since.tracked):
        return bool(Counter(verb.taken(since.rows)) | Counter(verb.seen(since.rows)))
    old, new = set(then.rows), set(since.rows)
    ids = {row.id for row in new}
    gone = (verb.taken(then.rows) | verb.seen(then.rows)) - new
    if verb.only_deletes:
        gone = {row for row in gone if row.id in ids}
    return bool(gone or ((verb.taken(since.rows) | verb.seen(since.rows)) - old))


def _takes_or_moves(states: Sequence[State], version: int) -> bool:
    """Whether a version took rows away or moved them, so that files went."""
    return states[version].moves or states[version].operation not in ("WRITE", "STREAMING UPDATE")


def _meanwhile(told: Told) -> range:
    return range(told.read + 1, told.ended + 1)


def _columns(store: ObjectStore, key: str, properties: Mapping[str, str]) -> tuple[list[Any], ...]:
    table = pq.read_table(pa.BufferReader(store.get(key)), use_threads=False)
    names = ("rowTracking.materializedRowIdColumnName", "rowTracking.materializedRowCommitVersionColumnName")
    carried = [properties.get(f"delta.{name}") for name in names]
    own = [table[n].to_pylist() if n in table.column_names else [None] * len(table) for n in carried]
    return table["k"].to_pylist(), table["v"].to_pylist(), *own


def _hidden(location: Location, add: Mapping[str, Any]) -> Any:
    dv = add.get("deletionVector")
    if dv is None:
        return ()
    file = dv_file(location, add["path"], dv["storageType"], dv["pathOrInlineDv"])
    assert file is not None, "vectors of a simulation are in files"
    at = dv.get("offset") or 0
    frame = location.store.get_range(location.store_key(file), at, dv["sizeInBytes"] + 8)
    blob = bitmap.unframe(frame, size=dv["sizeInBytes"], where=file)
    return bitmap.decode(blob, expected_cardinality=dv["cardinality"], where=file)


def _vector_id(action: Mapping[str, Any]) -> Any:
    dv = action.get("deletionVector")
    return None if dv is None else (dv["pathOrInlineDv"], dv.get("offset"))


def _values(rows: Sequence[Row]) -> list[tuple[int, int]]:
    return sorted((row.k, row.v) for row in rows)


def _order(row: Row) -> tuple[int, ...]:
    return tuple(-1 if value is None else value for value in row)


def _difference(expected: Mapping[int, Row], found: Mapping[int, Row]) -> str:
    wrong = [i for i in expected if found.get(i) != expected[i]]
    return "; ".join(f"row {i} is {found.get(i)} and should be {expected[i]}" for i in wrong[:5])
