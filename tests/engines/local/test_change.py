"""Rows changed without Spark: taken, kept, copied and told as a plain model says."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from holdfast.engines.local import find
from holdfast.engines.local.engine import LocalEngine
from holdfast.engines.local.join import index
from holdfast.engines.local.write import write_table
from holdfast.env import fixed
from holdfast.errors import ConstraintViolated, Invalid, SchemaMismatch, Unsupported
from holdfast.model.files import FILES, FileTable, NoStats, Slab
from holdfast.model.format import Storing
from holdfast.model.snapshot import HiddenRows, RowIdentity, Snapshot
from holdfast.model.write_spec import write_spec
from holdfast.parquet.write import WriteSpec
from holdfast.plan.dml.change import Clause, Insertion, Key, PinnedSource, Set, Side, Source, Work
from holdfast.plan.scan.request import Condition, Request, plan_scan
from holdfast.predicate.parse import parse
from holdfast.schema.from_arrow import struct_of
from holdfast.schema.types import STRING, Field, Struct
from holdfast.storage.open import open_location
from tests.support.depth import examples
from tests.support.sayings import Row, Said, When, both, equal, less, only_deletes, plus, same, shown, takers

ENGINE = LocalEngine(fixed())
NAN = float("nan")
ROWS = pa.schema([("k", pa.int64()), ("v", pa.float64()), ("w", pa.string())])
fresh = itertools.count()


def snapshot_of(*files: pa.Table, partitioned: tuple[str, ...] = ()) -> Snapshot:
    """A table without a log, which tracks rows; each argument is a file, written at a version of its own."""
    location = open_location(f"memory://changes/{next(fresh)}")
    schema = struct_of(files[0].schema)
    parts = [write_table(location, rows, WriteSpec(schema.fields, partitioned), ENGINE.env) for rows in files]
    listed: list[Row] = []
    ids = 0
    for version, part in enumerate(parts, start=1):
        for file in part.to_pylist():
            listed.append({**file, "path": file["key"], "base_row_id": ids, "default_row_commit_version": version})
            ids += file["num_records"]
    table = pa.Table.from_pylist(listed, FILES)
    return Snapshot(
        location,
        len(parts),
        0,
        schema,
        partitioned,
        FileTable((Slab(table, NoStats(len(listed))),)),
        identity=RowIdentity("row id", "row version", ids - 1),
    )


def storing(snapshot: Snapshot, schema: Struct | None = None, *, carried: bool = True) -> Storing:
    fields = (schema or snapshot.schema).fields
    identity = snapshot.identity if carried else None
    data = write_spec(Struct(fields), snapshot.partition_columns, snapshot.properties, carried=identity)
    feed = WriteSpec((*fields, Field("_change_type", STRING)), snapshot.partition_columns, prefix="_change_data")
    return Storing(data, feed, snapshot.properties)


def work_on(snapshot: Snapshot, *clauses: Clause, **more: Any) -> Work:
    asked = {"schema": snapshot.schema, "alias": "t", "store": storing(snapshot), "hidden": HiddenRows(), **more}
    return Work(plan_scan(snapshot, Request()), clauses=clauses, **asked)


def source_of(target: Snapshot, rows: pa.Table, on: str, *keys: Key) -> Source:
    return Source(as_table(target, ENGINE.source(rows).pin("stage", target)), on, keys, "s", rows.num_rows)


def as_table(target: Snapshot, pinned: PinnedSource) -> Snapshot:
    given = pinned.staged.select(["key", "size", "modified_ms", "partition_values"]).to_pylist()
    files = pa.Table.from_pylist([{**row, "path": row["key"]} for row in given], FILES)
    return Snapshot(target.location, 0, 0, pinned.schema, (), FileTable((Slab(files, NoStats(files.num_rows)),)))


def stored(snapshot: Snapshot, staged: pa.Table) -> list[Row]:
    """What was written, file by file, with ids and versions under short names."""
    rows: list[Row] = []
    short = {"row id": "id", "row version": "version"}
    for file in staged.to_pylist():
        data = snapshot.location.store.get(snapshot.location.key(file["key"]))
        parts = dict(file["partition_values"])
        found = pq.read_table(pa.BufferReader(data)).to_pylist()
        rows += [{short.get(name, name): value for name, value in {**parts, **row}.items()} for row in found]
    return rows


def arrow(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows), ROWS)


def keys_of(snapshot: Snapshot) -> list[str]:
    return snapshot.files.column("key").to_pylist()


ON = [
    Said("t.k = s.k", lambda t, s: equal(t["k"], s["k"]), (Key("k", "k"),)),
    Said("s.k <=> t.k", lambda t, s: same(t["k"], s["k"]), (Key("k", "k", null_safe=True),)),
    Said("t.v = s.v", lambda t, s: equal(t["v"], s["v"]), (Key("v", "v"),)),
    Said(
        "t.k = s.k AND t.w <=> s.w",
        lambda t, s: both(equal(t["k"], s["k"]), same(t["w"], s["w"])),
        (Key("k", "k"), Key("w", "w", null_safe=True)),
    ),
    Said(
        "t.k = s.k AND t.v < s.v",
        lambda t, s: both(equal(t["k"], s["k"]), less(t["v"], s["v"])),
        (Key("k", "k"),),
    ),
    Said("t.k < s.k", lambda t, s: less(t["k"], s["k"])),
]
MATCHED = [
    Said("t.w = s.w", lambda t, s: equal(t["w"], s["w"])),
    Said("s.v > t.v", lambda t, s: less(t["v"], s["v"])),
    Said("T.K >= 1", lambda t, s: None if t["k"] is None else t["k"] >= 1),
]
ALONE = [
    Said("w = 'a'", lambda t, _: equal(t["w"], "a")),
    Said("t.v IS NULL", lambda t, _: t["v"] is None),
]
MATCHED_SETS: list[tuple[str, Said]] = [
    ("w", Said("s.w", lambda t, s: s["w"])),
    ("w", Said("t.w || s.w", lambda t, s: plus(t["w"], s["w"]))),
    ("k", Said("coalesce(s.k, t.k) + 1", lambda t, s: plus(s["k"] if s["k"] is not None else t["k"], 1))),
    ("v", Said("s.k", lambda t, s: None if s["k"] is None else float(s["k"]))),
]
ALONE_SETS: list[tuple[str, Said]] = [
    ("w", Said("'alone'", lambda t, _: "alone")),
    ("v", Said("NULL", lambda t, _: None)),
]


rows_ = st.fixed_dictionaries(
    {
        "k": st.sampled_from([None, 0, 1, 2, 3]),
        "v": st.sampled_from([None, 0.0, -0.0, 1.5, NAN]),
        "w": st.sampled_from([None, "a", "b"]),
    }
)


def clauses(side: Side, conditions: Sequence[Said], sets: Sequence[tuple[str, Said]]) -> st.SearchStrategy[When]:
    chosen = st.lists(st.sampled_from(sets), min_size=1, max_size=2, unique_by=lambda pair: pair[0]).map(tuple)
    return st.builds(When, st.just(side), st.none() | st.sampled_from(conditions), st.none() | chosen)


any_clause = clauses(Side.MATCHED, MATCHED, MATCHED_SETS) | clauses(Side.ALONE, ALONE, ALONE_SETS)


@examples(60)
@given(
    st.lists(st.lists(rows_, min_size=1, max_size=6), min_size=1, max_size=3),
    st.lists(rows_, max_size=4),
    st.sampled_from(ON),
    st.lists(any_clause, max_size=3),
    st.sets(st.integers(0, 5)),
    st.booleans(),
)
def test_a_merge_does_what_the_model_does(
    files: list[list[Row]], incoming: list[Row], on: Said, whens: list[When], gone: set[int], keep: bool
) -> None:
    snapshot = snapshot_of(*(arrow(*rows) for rows in files))
    keys = keys_of(snapshot)
    hidden = HiddenRows({keys[0]: BitMap64(gone)})
    source = source_of(snapshot, arrow(*incoming), on.text, *on.keys)
    done = ENGINE.change(
        work_on(snapshot, *(when.clause for when in whens), source=source, hidden=hidden, keep=keep, meets=True)
    )
    updated, deleted, met, doubled, copied = dict[str, set[int]](), dict[str, set[int]](), set[int](), 0, 0
    written: list[Row] = []
    feed: list[Row] = []
    first_id = 0
    for version, (key, rows) in enumerate(zip(keys, files, strict=True), start=1):
        for at, t in enumerate(rows):
            if key == keys[0] and at in gone:
                continue
            met |= {n for n, s in enumerate(incoming) if on.means(t, s) is True}
            found = takers(t, incoming, on, whens)
            doubled += len(found) > 1
            identity = {"id": first_id + at, "version": None if found else version}
            if not found:
                copied += keep
                written += [{**t, **identity}] if keep else []
                continue
            by, s = found[0]
            (deleted if by.sets is None else updated).setdefault(key, set()).add(at)
            if by.sets is None:
                feed.append({**t, "_change_type": "delete"})
                continue
            new = by.after(t, s)
            written.append({**new, **identity})
            feed += [{**t, "_change_type": "update_preimage"}, {**new, "_change_type": "update_postimage"}]
        first_id += len(rows)
    assert {key: set(rows) for key, rows in done.updated.items()} == updated
    assert {key: set(rows) for key, rows in done.deleted.items()} == deleted
    assert set().union(*done.met.values()) == met
    assert done.doubled == (0 if only_deletes(whens) else doubled)
    assert done.copied == copied
    assert shown(stored(snapshot, done.staged)) == shown(written)
    assert shown(stored(snapshot, done.feed)) == shown(feed)
    assert all(key.startswith("_change_data/cdc-") for key in done.feed.column("key").to_pylist())


@examples(20)
@given(st.lists(rows_, max_size=5), st.data())
def test_rows_that_found_none_are_inserted_by_the_first_clause_that_takes_them(
    incoming: list[Row], data: st.DataObject
) -> None:
    snapshot = snapshot_of(arrow({"k": 1, "v": 1.0, "w": "a"}))
    met = data.draw(st.sets(st.integers(0, max(0, len(incoming) - 1))) if incoming else st.just(set[int]()))
    source = source_of(snapshot, arrow(*incoming), "false")
    positions = {key: BitMap64(met) for key in keys_of(source.snapshot) if met}
    clauses = (
        Clause(Side.NEW, "s.k > 1", (Set(("k",), "s.k * 10"), Set(("w",), "upper(w)"))),
        Clause(Side.NEW, "w IS NOT NULL", (Set(("v",), "v"),)),
    )
    done = ENGINE.insert(Insertion(source, positions, clauses, snapshot.schema, storing(snapshot, carried=False), "t"))
    left = [row for n, row in enumerate(incoming) if n not in met]
    first = [row for row in left if row["k"] is not None and row["k"] > 1]
    second = [row for row in left if row not in first and row["w"] is not None]
    wanted = [{"k": r["k"] * 10, "v": None, "w": r["w"] and r["w"].upper()} for r in first]
    wanted += [{"k": None, "v": r["v"], "w": None} for r in second]
    assert shown(stored(snapshot, done.staged)) == shown(wanted)
    assert shown(stored(snapshot, done.feed)) == shown([{**row, "_change_type": "insert"} for row in wanted])


def test_without_a_source_a_clause_is_about_every_row() -> None:
    snapshot = snapshot_of(arrow({"k": 1, "w": "a"}, {"k": 2, "w": "b"}), arrow({"k": 3, "w": "a"}))
    one, two = keys_of(snapshot)
    done = ENGINE.change(work_on(snapshot, Clause(Side.ALONE, "w = 'a'")))
    assert (done.deleted, done.updated, done.copied) == ({one: BitMap64([0]), two: BitMap64([0])}, {}, 0)
    assert done.staged.num_rows == 0
    only_found = ENGINE.change(work_on(snapshot, Clause(Side.ALONE, "w = 'a'"), store=None))
    assert only_found.deleted == done.deleted
    kept = ENGINE.change(work_on(snapshot, keep=True))
    assert [row["id"] for row in stored(snapshot, kept.staged)] == [0, 1, 2]
    assert kept.copied == 3


def test_what_the_plan_says_of_rows_keeps_them_from_being_taken() -> None:
    snapshot = snapshot_of(arrow({"k": 1}, {"k": 2}))
    work = work_on(snapshot, Clause(Side.ALONE), store=None)
    where = Condition(None, "k = 2", parse("k = 2", snapshot.schema))
    done = ENGINE.change(replace(work, target=replace(work.target, where=where)))
    assert list(done.deleted.values()) == [BitMap64([1])]


NESTED = pa.schema([("s", pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string()), ("d", pa.int32())]))]))])


def test_fields_inside_of_structs_are_set() -> None:
    rows = pa.Table.from_pylist([{"s": {"a": 1, "b": {"c": "x", "d": 2}}}, {"s": None}], NESTED)
    snapshot = snapshot_of(rows)
    sets = (Set(("s", "b", "c"), "'new'"), Set(("s", "a"), "s.a + s.b.d"))
    done = ENGINE.change(work_on(snapshot, Clause(Side.ALONE, None, sets)))
    assert [row["s"] for row in stored(snapshot, done.staged)] == [
        {"a": 3, "b": {"c": "new", "d": 2}},
        {"a": None, "b": {"c": "new", "d": None}},
    ]
    twice = (Set(("s",), "s"), Set(("s", "a"), "1"))
    with pytest.raises(Invalid, match="set twice"):
        ENGINE.change(work_on(snapshot, Clause(Side.ALONE, None, twice)))


def test_columns_that_come_with_the_change_are_null_where_nothing_sets_them() -> None:
    snapshot = snapshot_of(arrow({"k": 1}, {"k": 2}))
    schema = Struct((*snapshot.schema.fields, Field("n", STRING)))
    clause = Clause(Side.ALONE, "k = 1", (Set(("n",), "'x'"),))
    done = ENGINE.change(work_on(snapshot, clause, schema=schema, keep=True, store=storing(snapshot, schema)))
    assert [row["n"] for row in stored(snapshot, done.staged)] == ["x", None]


def test_a_row_moves_with_its_partition_and_keeps_its_id() -> None:
    rows = arrow({"k": 1, "w": "a"}, {"k": 2, "w": "a"}, {"k": 3, "w": "b"})
    snapshot = snapshot_of(rows, partitioned=("w",))
    done = ENGINE.change(work_on(snapshot, Clause(Side.ALONE, "k < 3", (Set(("w",), "if(k = 1, 'b', NULL)"),))))
    got = {row["k"]: (row["w"], row["id"]) for row in stored(snapshot, done.staged)}
    assert got == {1: ("b", 0), 2: (None, 1)}


def test_values_are_converted_as_assignments_are() -> None:
    rows = pa.table({"t": pa.array([1], pa.int8()), "x": pa.array([1.5]), "w": ["a"]})
    snapshot = snapshot_of(rows)
    sets = (Set(("t",), "t + 100L"), Set(("x",), "2"), Set(("w",), "t"))
    done = ENGINE.change(work_on(snapshot, Clause(Side.ALONE, None, sets)))
    assert [(r["t"], r["x"], r["w"]) for r in stored(snapshot, done.staged)] == [(101, 2.0, "1")]
    with pytest.raises(Invalid, match="no value for some row"):
        ENGINE.change(work_on(snapshot, Clause(Side.ALONE, None, (Set(("t",), "1000"),))))
    with pytest.raises(SchemaMismatch, match="x"):
        ENGINE.change(work_on(snapshot, Clause(Side.ALONE, None, (Set(("x",), "w"),))))


def test_demands_hold_for_changed_rows_and_are_not_asked_of_copied_ones() -> None:
    snapshot = snapshot_of(arrow({"k": 1, "w": "a"}, {"k": -5, "w": "b"}))
    demanding = replace(snapshot, properties={**snapshot.properties, "delta.constraints.positive": "k > 0"})
    fine = Clause(Side.ALONE, "k = 1", (Set(("k",), "7"),))
    done = ENGINE.change(work_on(demanding, fine, keep=True))
    assert [row["k"] for row in stored(snapshot, done.staged)] == [7, -5]
    with pytest.raises(ConstraintViolated, match="positive"):
        ENGINE.change(work_on(demanding, Clause(Side.ALONE, "k = 1", (Set(("k",), "-7"),))))
    strict = Struct(tuple(replace(f, nullable=f.name != "w") for f in snapshot.schema.fields))
    with pytest.raises(ConstraintViolated, match="w=null"):
        ENGINE.change(work_on(snapshot, Clause(Side.ALONE, None, (Set(("w",), "NULL"),)), schema=strict))


def test_identity_numbers_stay_and_go_on() -> None:
    snapshot = snapshot_of(pa.table({"w": ["a"], "n": pa.array([5])}))
    numbered = {"delta.identity.start": 1, "delta.identity.step": 2, "delta.identity.highWaterMark": 5}
    schema = Struct(tuple(replace(f, metadata=numbered) if f.name == "n" else f for f in snapshot.schema.fields))
    snapshot = replace(snapshot, schema=schema)
    done = ENGINE.change(work_on(snapshot, Clause(Side.ALONE, None, (Set(("w",), "'b'"),))))
    assert [(r["w"], r["n"]) for r in stored(snapshot, done.staged)] == [("b", 5)]
    source = source_of(snapshot, pa.table({"w": ["x", "y", "z"]}), "false")
    clauses = (Clause(Side.NEW, "w = 'y'", (Set(("w",), "w"),)), Clause(Side.NEW, None, (Set(("w",), "w"),)))
    new = ENGINE.insert(Insertion(source, {}, clauses, schema, storing(snapshot, carried=False)))
    assert [(r["w"], r["n"]) for r in stored(snapshot, new.staged)] == [("y", 7), ("x", 9), ("z", 11)]
    assert new.marks == {"n": 11}


def test_a_generated_column_is_kept_only_while_nothing_it_is_made_of_changes() -> None:
    snapshot = snapshot_of(pa.table({"a": [1], "b": [2], "g": [2]}))
    metadata = {"delta.generationExpression": "a + 1"}
    schema = Struct(tuple(replace(f, metadata=metadata) if f.name == "g" else f for f in snapshot.schema.fields))
    snapshot = replace(snapshot, schema=schema)
    done = ENGINE.change(work_on(snapshot, Clause(Side.ALONE, None, (Set(("b",), "9"),))))
    assert [(r["b"], r["g"]) for r in stored(snapshot, done.staged)] == [(9, 2)]
    with pytest.raises(Unsupported, match="generated column g"):
        ENGINE.change(work_on(snapshot, Clause(Side.ALONE, None, (Set(("a",), "9"),))))


@pytest.mark.parametrize("place", ["condition", "value", "on"])
def test_what_only_spark_can_do_is_refused_before_anything_is_read(place: str) -> None:
    snapshot = snapshot_of(arrow({"k": 1}))
    source = source_of(snapshot, arrow({"k": 1}), "hash(t.k) = s.k" if place == "on" else "t.k = s.k")
    sets = (Set(("k",), "hash(t.k)" if place == "value" else "1"),)
    clause = Clause(Side.MATCHED, "hash(t.k) = 1" if place == "condition" else None, sets)
    snapshot.location.store.delete(snapshot.location.key(keys_of(snapshot)[0]))
    with pytest.raises(Unsupported, match="only Spark can evaluate `HASH"):
        ENGINE.change(work_on(snapshot, clause, source=source))


def test_rows_that_collide_are_shown() -> None:
    snapshot = snapshot_of(arrow({"k": 1}, {"k": 2}, {"k": 3}))
    rows = arrow({"k": 1, "w": "a"}, {"k": 1, "w": "b"}, {"k": 2}, {"k": 3, "v": 0.5}, {"k": 3, "w": "ü"})
    source = source_of(snapshot, rows, "t.k = s.k", Key("k", "k"))
    work = work_on(snapshot, Clause(Side.MATCHED, None, (Set(("w",), "s.w"),)), source=source, store=None)
    assert ENGINE.change(work).doubled == 2
    texts = ['{"k":1,"w":"a"} and {"k":1,"w":"b"}', '{"k":3,"v":0.5} and {"k":3,"w":"ü"}']
    assert list(ENGINE.colliding(work, 5)) == texts
    assert list(ENGINE.colliding(work, 1)) == texts[:1]


def test_a_condition_without_an_equality_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "MOST_PAIRS", 5)
    snapshot = snapshot_of(arrow({"k": 1}, {"k": 2}, {"k": 3}))
    source = source_of(snapshot, arrow({"k": 1}, {"k": 2}), "t.k < s.k")
    with pytest.raises(Invalid, match="add an equality"):
        ENGINE.change(work_on(snapshot, Clause(Side.MATCHED), source=source, store=None))


def test_keys_of_different_types_meet() -> None:
    snapshot = snapshot_of(arrow({"k": 1}, {"k": 2}, {"k": 2**53 + 1}))
    rows = pa.table({"k": pa.array([2, None], pa.int16()), "d": [1.0, NAN], "x": ["2", "3"]})
    source = source_of(snapshot, rows, "t.k = s.k OR t.k = s.d", Key("k", "k"))
    either = replace(source, keys=())
    done = ENGINE.change(work_on(snapshot, Clause(Side.MATCHED), source=either, store=None))
    assert list(done.deleted.values()) == [BitMap64([0, 1])]
    by_key = replace(source, on="t.k = s.k")
    done = ENGINE.change(work_on(snapshot, Clause(Side.MATCHED), source=by_key, store=None))
    assert list(done.deleted.values()) == [BitMap64([1])]


@examples(60)
@given(
    st.lists(st.tuples(st.sampled_from([None, 0.0, -0.0, NAN, 1.0]), st.sampled_from([None, "a", "b"])), max_size=8),
    st.lists(st.tuples(st.sampled_from([None, 0.0, NAN, 2.0]), st.sampled_from([None, "a", "c"])), max_size=8),
    st.tuples(st.booleans(), st.booleans()),
    st.integers(1, 4),
)
def test_the_index_finds_every_pair_once(
    ours: list[tuple[Any, Any]], theirs: list[tuple[Any, Any]], safe: tuple[bool, bool], at_once: int
) -> None:
    columns = [
        [pa.array([row[0] for row in side], pa.float64()), pa.array([row[1] for row in side], pa.string())]
        for side in (ours, theirs)
    ]
    made = index(columns[1], safe, len(theirs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.engines.local.join.PAIRS_AT_ONCE", at_once)
        found = [
            (int(a), int(b)) for x, y in made.pairs(columns[0], np.arange(len(ours))) for a, b in zip(x, y, strict=True)
        ]
    wanted = [
        (a, b)
        for a, b in itertools.product(range(len(ours)), range(len(theirs)))
        if all(
            same(x, y) if is_safe else equal(x, y) is True
            for x, y, is_safe in zip(ours[a], theirs[b], safe, strict=True)
        )
    ]
    assert found == wanted


def test_a_source_is_pinned_as_it_is() -> None:
    snapshot = snapshot_of(arrow({"k": 1}))
    rows = pa.table({"D": pa.array(["x", None]).dictionary_encode(), "b": pa.array([1, 2], pa.uint8())})
    pinned = ENGINE.source(rows).pin("stage/here", snapshot)
    assert pinned.schema.names == ("D", "b")
    assert all(key.startswith("stage/here/") for key in pinned.staged.column("key").to_pylist())
    assert pinned.staged.column("num_records").to_pylist() == [2]
    assert ENGINE.source(rows.slice(0, 0)).pin("stage/none", snapshot).staged.num_rows == 0
    with pytest.raises(Unsupported, match="without columns"):
        ENGINE.source(pa.table({})).pin("stage", snapshot)
    with pytest.raises(Invalid, match="more than one column"):
        ENGINE.source(pa.table([pa.array([1]), pa.array([2])], names=["a", "A"])).pin("stage", snapshot)
