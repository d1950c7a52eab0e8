"""Pruning a table of files: what each step keeps, what it reads to decide, and the words for it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Damaged
from holdfast.model.files import FILES, Bounds, FileStats, FileTable, LeafPath, Slab
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.prune import Want, prune
from holdfast.plan.scan.reasons import reasons
from holdfast.plan.scan.request import Condition, Request, plan_scan
from holdfast.predicate.parse import parse
from holdfast.predicate.records import Predicate
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import MAPPING_NAME, DataType, Field, Primitive, Struct
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from tests.predicate import model
from tests.support.depth import examples

SCHEMA = Struct(
    (
        Field("Id", Primitive("long"), True, {MAPPING_NAME: "col-1"}),
        Field("v", Primitive("string"), True, {MAPPING_NAME: "col-2"}),
        Field("x", Primitive("double")),
        Field("year", Primitive("integer"), True, {MAPPING_NAME: "col-3"}),
        Field("st", Struct((Field("inner", Primitive("date"), True, {MAPPING_NAME: "col-5"}),)), True),
        Field("at", Primitive("timestamp_ntz")),
    )
)


@dataclass
class Told:
    """Statistics from plain dictionaries, one per file, that remember which leaves were asked for."""

    files: list[dict[str, Any]]
    asked: list[set[LeafPath]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.files)

    def read(self, leaves: Mapping[LeafPath, DataType]) -> FileStats:
        self.asked.append(set(leaves))
        bounds = {}
        for leaf, type_ in leaves.items():
            stats = [f.get(".".join(leaf), (None, None, None)) for f in self.files]
            low, high = (pa.array([s[i] for s in stats], arrow_type(type_)) for i in (0, 1))
            bounds[leaf] = Bounds(low, high, pa.array([s[2] for s in stats], pa.int64()))
        count = pa.array([f.get("rows") for f in self.files], pa.int64())
        return FileStats(count, pa.array([f.get("tight", True) for f in self.files], pa.bool_()), bounds)

    def filter(self, mask: pa.Array) -> Told:
        return Told([f for f, keep in zip(self.files, mask.to_pylist(), strict=True) if keep], self.asked)

    def take(self, indices: pa.Array) -> Told:
        return Told([self.files[i] for i in indices.to_pylist()], self.asked)


def slab(files: list[dict[str, Any]], first: int = 0) -> Slab:
    """Files from what the log says of each: `parts` are partition texts, the rest statistics by physical name."""
    rows = [
        {"path": f"f{i}", "key": f"f{i}", "size": 1, "partition_values": list(f.get("parts", {}).items())}
        for i, f in enumerate(files, first)
    ]
    return Slab(pa.Table.from_pylist(rows, schema=FILES), Told(files))


def snapshot(*slabs: Slab, schema: Struct = SCHEMA, partitions: tuple[str, ...] = ("year",)) -> Snapshot:
    return Snapshot(Location(MemoryStore(), "t"), 3, 0, schema, partitions, FileTable(slabs))


def kept(table: Snapshot, where: str | Predicate) -> list[str]:
    predicate = parse(where, table.schema) if isinstance(where, str) else where
    pruned = prune(table.files, Want(table, predicate))
    return [str(k) for k in pruned.files.column("key").to_pylist()]


FILES_A: list[dict[str, Any]] = [
    {"parts": {"col-3": "2020"}, "rows": 10, "col-1": (0, 9, 0), "col-2": ("a", "c", 2), "x": (0.0, 1.0, 0)},
    {"parts": {"col-3": "2021"}, "rows": 10, "col-1": (10, 19, 0), "col-2": (None, None, 10), "x": (5.0, 9.0, 0)},
]
FILES_B: list[dict[str, Any]] = [
    {"parts": {"col-3": None}, "rows": 10, "col-1": (20, 29, 5), "tight": False},
    {"parts": {"col-3": "2022"}},
]
TABLE = snapshot(slab(FILES_A), slab(FILES_B, 2))


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("true", "f0 f1 f2 f3"),
        ("id > 15", "f1 f2 f3"),
        ("ID = 5", "f0 f3"),
        ("year = 2021", "f1"),
        ("year is null", "f2"),
        ("year <> 2021", "f0 f3"),
        ("not (year <=> 2021)", "f0 f2 f3"),
        ("year = 2020 or id = 25", "f0 f2 f3"),
        ("year >= 2021 and id < 5", "f3"),
        ("(year = 2020 and id > 100) or year = 2021", "f1"),
        ("v = 'b'", "f0 f2 f3"),
        ("v is null", "f0 f1 f2 f3"),
        ("v is not null", "f0 f2 f3"),
        ("id is null", "f2 f3"),
        ("x > 100", "f0 f1 f2 f3"),
        ("x < 4", "f0 f2 f3"),
        ("f(id) > 3 and id < 10", "f0 f3"),
        ("f(id) > 3 or id < 10", "f0 f1 f2 f3"),
        ("st.inner = '2020-01-01'", "f0 f1 f2 f3"),
        ("st is null", "f0 f1 f2 f3"),
        ("false", ""),
        ("id = null", ""),
        ("id in (3, 4, 12, 500)", "f0 f1 f3"),
        ("v like 'd%'", "f2 f3"),
    ],
)
def test_files_kept(where: str, files: str) -> None:
    assert kept(TABLE, where) == files.split()


def test_each_step_says_what_it_did_and_went_by() -> None:
    clustered = replace(TABLE, clustering_columns=(("col-1",),))
    pruned = prune(clustered.files, Want(clustered, parse("year > 2020 and id > 15 and v > 'a'", SCHEMA)))
    assert [(s.name, s.kept, s.dropped, s.detail) for s in pruned.steps] == [
        ("by_partition", 2, 2, "year"),
        ("by_bounds", 1, 1, "Id, v; clustered by Id"),
    ]


def test_statistics_are_read_only_where_a_condition_needs_them() -> None:
    part = slab(FILES_A)
    table = snapshot(part)
    assert isinstance(part.stats, Told)
    for where in ("true", "year = 2020", "f(id) > 1", "st is null", "false"):
        kept(table, where)
    assert part.stats.asked == []
    kept(table, "id > 1 and upper(v) = 'A' and year = 2020")
    assert part.stats.asked == [{("col-1",)}]
    kept(table, "id > 1 and year = 1900")
    assert len(part.stats.asked) == 1


def test_more_pruners_come_last_and_are_named() -> None:
    def by_luck(files: FileTable, want: Want) -> pa.BooleanArray:
        return pa.array([i == 0 for i in range(len(files))])

    pruned = prune(TABLE.files, Want(TABLE, parse("id > 15", SCHEMA)), (by_luck,))
    assert [s.name for s in pruned.steps] == ["by_partition", "by_bounds", "by_luck"]
    assert pruned.files.column("key").to_pylist() == ["f1"]


def test_a_table_without_files_is_pruned_too() -> None:
    assert kept(snapshot(), "id > 3 and year = 2020") == []


def test_a_partition_value_of_the_wrong_type_is_damage_naming_the_column() -> None:
    table = snapshot(slab([{"parts": {"col-3": "twenty"}}]))
    with pytest.raises(Damaged, match=r"'twenty' of partition column year of .*t is not a integer"):
        kept(table, "year = 2020")


PARTITIONED = Struct(tuple(Field(n, t) for n, t in model.TYPES.items()))


def _text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case float():
            special = {math.inf: "Infinity", -math.inf: "-Infinity"}
            return "NaN" if math.isnan(value) else special.get(value, repr(value))
        case dt.datetime():
            return value.isoformat(" ") if value.tzinfo is None else value.isoformat().replace("+00:00", "Z")
        case _:
            return str(value)


@examples(60)
@given(
    st.lists(
        st.fixed_dictionaries({n: st.none() | v for n, v in model.VALUES.items() if n != "raw"}), min_size=1, max_size=4
    ),
    model.predicates(tuple(n for n in model.TYPES if n != "raw")),
)
def test_partition_columns_are_decided_exactly(rows: list[dict[str, Any]], predicate: Predicate) -> None:
    table = snapshot(
        slab([{"parts": {n: _text(v) for n, v in row.items()}} for row in rows]),
        schema=PARTITIONED,
        partitions=tuple(model.TYPES),
    )
    # The log cannot tell an empty string from null.
    stored = [{n: None if v == "" else v for n, v in row.items()} for row in rows]
    assert kept(table, predicate) == [f"f{i}" for i, r in enumerate(stored) if model.truth(predicate, r) is True]


def why(table: Snapshot, where: str | None, limit: int = 10) -> dict[str, list[str]]:
    condition = None if where is None else Condition(where, where, parse(where, table.schema))
    plan = plan_scan(table, Request(where=condition))
    return {r.file: list(r.why) for r in reasons(plan, limit=limit)}


def test_reasons_name_what_kept_a_file() -> None:
    assert why(TABLE, None, limit=1) == {"f0": ["no condition"]}
    assert why(TABLE, "id > 15 and f(x) > 3") == {
        "f1": ["Id in [10, 19] overlaps Id > 15", "`F(x) > 3` is left to Spark"],
        "f2": ["Id in [20, 29] overlaps Id > 15", "`F(x) > 3` is left to Spark"],
        "f3": ["no statistics for Id", "`F(x) > 3` is left to Spark"],
    }
    assert why(TABLE, "id is null") == {
        "f2": ["a deletion vector makes the null count of Id inexact"],
        "f3": ["no null count for Id"],
    }
    assert why(TABLE, "year = 2020 or id = 25")["f0"] == ["year = 2020 satisfies year = 2020"]
    assert why(TABLE, "year is null") == {"f2": ["year is null"]}
    assert why(TABLE, "v is null")["f0"] == ["v is null in 2 of 10 rows, so v IS NULL may hold"]
    assert why(TABLE, "v is null and v = 'a'").keys() == {"f0", "f2", "f3"}
    assert why(TABLE, "x > 100")["f0"] == ["x in [0.0, 1.0], but NaN, which bounds leave out, satisfies x > 100.0"]
    assert why(TABLE, "st is null")["f0"] == ["statistics do not cover st, so st IS NULL is left to Spark"]
    assert why(TABLE, "false") == {}


def test_reasons_show_cut_strings_and_far_years() -> None:
    table = snapshot(slab([{"rows": 1, "col-2": ("a" * 32, "a" * 32 + "\x7f", 0)}]))
    assert why(table, "v > 'a'")["f0"][0].endswith("(a string bound is truncated)")
    old = snapshot(slab([{"parts": {"at": "-9999-12-31 00:00:00"}}]), partitions=("at",))
    day_us = 86_400_000_000
    assert why(old, "at < '2020-01-01'")["f0"] == [f"at = {-4371223 * day_us} satisfies at < '2020-01-01 00:00:00'"]
