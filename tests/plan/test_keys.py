"""Pruning by the keys of a MERGE's source: a row that matches is in a kept file and satisfies the filter."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal as D
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.conditions import below
from holdfast.engines.spark.types import spark_struct
from holdfast.model.snapshot import Snapshot
from holdfast.plan.dml import keys as module
from holdfast.plan.dml.change import Key
from holdfast.plan.dml.keys import MOST_FILTERS, KeyValues, by_keys, gather, row_group_filter
from holdfast.predicate.records import ALWAYS, And, Compare, Constant, Op, Or, Predicate
from holdfast.schema.arrow import arrow_schema
from holdfast.schema.types import MAPPING_NAME, DataType, Decimal, Field, Primitive, Struct
from tests.plan.test_prune import _text, slab, snapshot
from tests.predicate import model
from tests.support.depth import examples

P = Primitive
_NEW_YEAR = dt.datetime(2020, 1, 1)
_DOUBLES = [-math.inf, -1.5, -0.0, 0.0, 0.1, model.single(0.1), 1.5, math.inf, math.nan]
_MOMENTS = [
    *(_NEW_YEAR + dt.timedelta(microseconds=i) for i in range(5)),
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 1, 1),
]


@dataclass(frozen=True)
class Pair:
    """The types of a key's two columns, and values of each; some of them equal."""

    target: DataType
    source: DataType
    ours: Sequence[Any]
    theirs: Sequence[Any]


def numbers(*values: str) -> list[D]:
    return [D(value) for value in values]


PAIRS = [
    Pair(P("long"), P("long"), [-(2**63), -1, 0, 1, 2, 7, 2**63 - 1], [-(2**63), -1, 0, 2, 3, 2**63 - 1]),
    Pair(P("byte"), P("long"), [-128, -1, 0, 1, 127], [-(2**40), -128, -1, 1, 127, 128, 2**40]),
    Pair(P("long"), P("short"), [-(2**40), -1, 0, 5, 2**40], [-1, 0, 5, 9]),
    Pair(P("double"), P("double"), _DOUBLES, _DOUBLES),
    Pair(P("float"), P("double"), [model.single(x) for x in _DOUBLES], _DOUBLES),
    Pair(P("double"), P("float"), _DOUBLES, [model.single(x) for x in _DOUBLES]),
    Pair(Decimal(5, 1), Decimal(9, 3), numbers("0.1", "-9999.9", "9999.9", "1.2"), numbers("0.100", "1.250", "99999")),
    Pair(Decimal(20, 4), Decimal(6, 0), numbers("0.1", "1", "-3", "1E15"), numbers("1", "-3", "7")),
    Pair(P("string"), P("string"), ["", "a", "a b", "\x7f", "\U00010000", "x" * 300], ["", "a", "\uffff", "x" * 300]),
    Pair(P("date"), P("date"), [m.date() for m in _MOMENTS], [m.date() for m in _MOMENTS]),
    Pair(P("timestamp_ntz"), P("timestamp_ntz"), _MOMENTS, _MOMENTS),
    Pair(
        P("timestamp"),
        P("timestamp"),
        [m.replace(tzinfo=dt.UTC) for m in _MOMENTS],
        [m.replace(tzinfo=dt.UTC) for m in _MOMENTS],
    ),
    Pair(P("boolean"), P("boolean"), [True, False], [True, False]),
]
UNLIKE = [
    Pair(P("integer"), P("string"), [1, 2], ["1", "02"]),
    Pair(P("string"), P("integer"), ["1", "02"], [1, 2]),
    Pair(P("timestamp"), P("date"), [_NEW_YEAR.replace(tzinfo=dt.UTC)], [_NEW_YEAR.date()]),
    Pair(P("timestamp"), P("timestamp_ntz"), [_NEW_YEAR.replace(tzinfo=dt.UTC)], [_NEW_YEAR]),
    Pair(P("long"), P("double"), [1, 2], [1.0]),
    Pair(P("long"), Decimal(3, 0), [1, 2], numbers("1")),
    Pair(Decimal(38, 0), Decimal(38, 10), numbers("1"), numbers("1.5")),
    Pair(P("binary"), P("binary"), [b"a"], [b"a"]),
    Pair(P("integer"), P("void"), [1, 2], []),
]


def same(ours: Any, theirs: Any, null_safe: bool) -> bool:
    if ours is None or theirs is None:
        return null_safe and ours is theirs
    return bool(model.order(ours) == model.order(theirs))


@st.composite
def bounds(draw: st.DrawFn, values: Sequence[Any]) -> tuple[Any, Any, int | None]:
    """What a log may say of a column: the truth, less, or with the bounds a writer of NaN spoils."""
    held = sorted((v for v in values if v is not None and v == v), key=model.order)
    low, high = (held[0], held[-1]) if held else (None, None)
    nulls: int | None = sum(v is None for v in values)
    if any(v != v for v in values) and draw(st.booleans()):
        low, high = draw(st.sampled_from([(low, math.nan), (math.nan, math.nan)]))
    if draw(st.integers(0, 4)) == 0:
        low, high, nulls = draw(st.sampled_from([(None, high, nulls), (low, None, nulls), (low, high, None)]))
    return low, high, nulls


@dataclass(frozen=True)
class Case:
    target: Snapshot
    files: list[list[dict[str, Any]]]
    source: Struct
    rows: list[dict[str, Any]]
    keys: tuple[Key, ...]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A table of a few files, a source of a few rows, and one or two keys of any types."""
    pairs = draw(st.lists(st.sampled_from(PAIRS), min_size=1, max_size=2))
    named = {f"k{i}": pair for i, pair in enumerate(pairs)}
    partitions = tuple(name for name in named if draw(st.booleans()))
    held = {name: st.none() | st.sampled_from(pair.ours) for name, pair in named.items()}
    files: list[list[dict[str, Any]]] = []
    statistics: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(0, 5))):
        fixed = {name: draw(held[name]) for name in partitions}
        rows = [{n: draw(v) for n, v in held.items()} | fixed for _ in range(draw(st.integers(1, 4)))]
        parts = {f"_{n}": _text(v) for n, v in fixed.items()}
        # The log cannot tell an empty string from null, and neither can a reader.
        rows = [{n: None if n in fixed and v == "" else v for n, v in row.items()} for row in rows]
        stats = {f"_{n}": draw(bounds([r[n] for r in rows])) for n in held if n not in partitions}
        files.append(rows)
        statistics.append({"parts": parts, "rows": draw(st.sampled_from([len(rows), len(rows), None])), **stats})
    schema = Struct(tuple(Field(n.upper(), p.target, True, {MAPPING_NAME: f"_{n}"}) for n, p in named.items()))
    source = Struct(tuple(Field(f"s_{n}", p.source) for n, p in named.items()))
    given_rows = {f"s_{n}": st.none() | st.sampled_from(p.theirs) for n, p in named.items()}
    return Case(
        snapshot(slab(statistics), schema=schema, partitions=tuple(n.upper() for n in partitions)),
        files,
        source,
        draw(st.lists(st.fixed_dictionaries(given_rows), max_size=8)),
        tuple(Key(n.upper(), f"s_{n}", null_safe=draw(st.booleans())) for n in named),
    )


def gathered(rows: list[dict[str, Any]], keys: Sequence[Key], source: Struct, limit: int = 100) -> KeyValues:
    table = pa.Table.from_pylist(rows, schema=arrow_schema(source))
    return gather(table.to_batches(max_chunksize=2), keys, source, limit=limit)


@examples(300)
@given(cases(), st.sampled_from([1, 2, 3, 100]), st.sampled_from([1, 3, 100]))
def test_a_row_that_matches_is_in_a_kept_file_and_satisfies_the_filter(case: Case, limit: int, waiting: int) -> None:
    with patch.object(module, "_MOST_WAITING", waiting):
        values = gathered(case.rows, case.keys, case.source, limit)
    mask = by_keys(case.target.files, case.target, values).to_pylist()
    condition = row_group_filter(values, case.target.schema)
    for rows, kept in zip(case.files, mask, strict=True):
        for row in rows:
            matches = any(
                all(same(row[k.target.lower()], other[k.source], k.null_safe) for k in case.keys) for other in case.rows
            )
            assert kept or not matches
            upper = {name.upper(): value for name, value in row.items()}
            assert not matches or model.truth(condition, upper) is True


@examples(150)
@given(st.sampled_from(PAIRS), st.data(), st.booleans())
def test_a_partition_column_keeps_exactly_the_files_that_match(
    pair: Pair, data: st.DataObject, null_safe: bool
) -> None:
    ours = data.draw(st.lists(st.none() | st.sampled_from(pair.ours), max_size=6))
    theirs = data.draw(st.lists(st.none() | st.sampled_from(pair.theirs), max_size=6))
    table = snapshot(
        slab([{"parts": {"k": _text(v)}} for v in ours]), schema=Struct((Field("k", pair.target),)), partitions=("k",)
    )
    source = Struct((Field("k", pair.source),))
    values = gathered([{"k": v} for v in theirs], [Key("k", "k", null_safe)], source)
    read = [None if v == "" else v for v in ours]
    expected = [any(same(v, other, null_safe) for other in theirs) for v in read]
    assert by_keys(table.files, table, values).to_pylist() == expected


def kept(statistics: list[dict[str, Any]], type_: DataType, wanted: list[Any], **key: bool) -> str:
    table = snapshot(slab(statistics), schema=Struct((Field("k", type_),)), partitions=())
    values = gathered([{"s": v} for v in wanted], [Key("k", "s", **key)], Struct((Field("s", type_),)))
    return "".join("x" if keep else "." for keep in by_keys(table.files, table, values).to_pylist())


def test_statistics_keep_the_files_whose_bounds_hold_a_value() -> None:
    tens: list[dict[str, Any]] = [{"rows": 10, "k": (10 * i, 10 * i + 9, 0)} for i in range(5)]
    assert kept(tens, P("long"), [12, 15, 47]) == ".x..x"
    assert kept(tens, P("long"), [9, 50]) == "x...."
    assert kept(tens, P("long"), [-1, 50]) == "....."
    assert kept(tens, P("long"), []) == "....."
    assert kept(tens, P("long"), [None]) == "....."
    assert kept(tens, P("long"), [None, 20], null_safe=True) == "..x.."
    statistics: list[dict[str, Any]] = [
        {"rows": 2, "k": (0.5, 1.0, 0)},
        {"rows": 2, "k": (0.5, 1.0, 1)},
        {"rows": 2, "k": (None, None, 2)},
        {"rows": 2},
        {"rows": 2, "k": (-0.0, -0.0, 0)},
    ]
    assert kept(statistics, P("double"), [7.0]) == "...x."
    assert kept(statistics, P("double"), [0.0]) == "...xx"
    assert kept(statistics, P("double"), [math.nan]) == "xx.xx"
    assert kept(statistics, P("double"), [None]) == "....."
    assert kept(statistics, P("double"), [None], null_safe=True) == ".xxx."


def test_statistics_are_read_only_for_files_whose_partitions_match() -> None:
    part = slab([{"parts": {"p": f"{i} ä/%=b"}, "rows": 1, "k": (i, i, 0)} for i in range(4)])
    schema = Struct((Field("p", P("string")), Field("k", P("long"))))
    table = snapshot(part, schema=schema, partitions=("p",))
    wanted = [{"p": "1 ä/%=b", "k": 1}, {"p": "2 ä/%=b", "k": 9}]
    values = gathered(wanted, [Key("p", "p"), Key("k", "k")], schema)
    assert by_keys(table.files, table, values).to_pylist() == [False, True, False, False]
    nothing = gathered([{"p": "no", "k": 1}], [Key("p", "p"), Key("k", "k")], schema)
    leaves_read = part.stats.asked  # type: ignore[attr-defined]
    leaves_read.clear()
    assert by_keys(table.files, table, nothing).to_pylist() == [False] * 4
    assert leaves_read == []


@pytest.mark.parametrize("pair", UNLIKE, ids=lambda p: f"{p.target}-{p.source}")
def test_types_that_spark_casts_prune_nothing(pair: Pair) -> None:
    statistics = [{"rows": 1, "k": (v, v, 0)} for v in pair.ours]
    table = snapshot(slab(statistics), schema=Struct((Field("k", pair.target),)), partitions=())
    source = Struct((Field("s", pair.source),))
    values = gathered([{"s": v} for v in [*pair.theirs, None]], [Key("k", "s")], source)
    assert by_keys(table.files, table, values).to_pylist() == [True] * len(statistics)
    assert row_group_filter(values, table.schema) == ALWAYS


@pytest.mark.parametrize("metadata", [{"__COLLATIONS": {}}, {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}])
@pytest.mark.parametrize("side", [0, 1])
def test_texts_that_are_not_compared_by_their_bytes_prune_nothing(metadata: dict[str, Any], side: int) -> None:
    fields = [Field("k", P("string")), Field("k", P("string"))]
    fields[side] = Field("k", P("string"), True, metadata)
    table = snapshot(slab([{"rows": 1, "k": ("B", "B", 0)}]), schema=Struct((fields[0],)), partitions=())
    values = gathered([{"k": "a"}], [Key("k", "k")], Struct((fields[1],)))
    assert by_keys(table.files, table, values).to_pylist() == [True]
    assert row_group_filter(values, table.schema) == ALWAYS


def filter_of(type_: DataType, wanted: list[Any], **key: bool) -> Predicate:
    values = gathered([{"s": v} for v in wanted], [Key("k", "s", **key)], Struct((Field("s", type_),)))
    return row_group_filter(values, Struct((Field("k", type_),)))


def between(low: Any, high: Any) -> Predicate:
    return And((Compare(Op.GE, ("k",), low), Compare(Op.LE, ("k",), high)))


def test_the_filter_splits_at_the_widest_gaps() -> None:
    clusters = [base + i for base in range(0, 100_000, 10_000) for i in range(5)]
    predicate = filter_of(P("long"), clusters)
    assert isinstance(predicate, Or)
    assert len(predicate.parts) == MOST_FILTERS
    assert predicate.parts[-1] == between(90_000, 90_004)
    # Gaps that would skip next to nothing are not worth a comparison per row.
    assert filter_of(P("long"), [*clusters, 10**9]) == Or((between(0, 90_004), Compare(Op.EQ, ("k",), 10**9)))
    assert filter_of(P("long"), list(range(0, 100_000, 7))) == between(0, 99_995)
    texts = [f"user-{base}{i:04}" for base in "afz" for i in range(20)]
    with patch.object(module, "MOST_FILTERS", 3):
        expected = tuple(between(f"user-{base}0000", f"user-{base}0019") for base in "afz")
        assert filter_of(P("string"), texts) == Or(expected)


def test_the_filter_says_nothing_where_it_cannot() -> None:
    assert filter_of(P("long"), []) == Constant(False)
    assert filter_of(P("long"), [None]) == Constant(False)
    assert filter_of(P("long"), [None, 1]) == Compare(Op.EQ, ("k",), 1)
    assert filter_of(P("long"), [None, 1], null_safe=True) == ALWAYS
    assert filter_of(P("double"), [math.nan, 1.0]) == ALWAYS
    assert filter_of(P("boolean"), [True]) == ALWAYS
    assert filter_of(P("date"), [dt.date(1, 1, 1), dt.date(2020, 1, 1)]) == Or(
        (Compare(Op.LE, ("k",), dt.date(1700, 1, 1)), Compare(Op.EQ, ("k",), dt.date(2020, 1, 1)))
    )
    assert filter_of(P("string"), ["x" * 300]) == Compare(Op.GE, ("k",), "x" * 256)
    zero = filter_of(P("double"), [0.0, -0.0])
    assert isinstance(zero, And)
    assert [str(part.value) for part in zero.parts if isinstance(part, Compare)] == ["-0.0", "0.0"]


def test_memory_is_bounded_by_count_and_by_bytes() -> None:
    source = Struct((Field("s", P("string")),))
    texts = pa.array([f"{i:06}" + "x" * 1000 for i in range(2000)])
    batches = pa.table({"s": texts}).to_batches(max_chunksize=100)
    with patch.object(module, "_MOST_BYTES", 100_000):
        gathered = gather(batches, [Key("k", "s")], source).columns[0].ranges
    assert gathered is not None
    assert 10 < len(gathered) < 100
    assert gathered.nbytes <= 100_000
    assert pa.compute.all(gathered.meet(texts, texts)).as_py()


def test_spark_finds_the_matches_the_model_finds(spark: SparkSession) -> None:
    """One query for all pairs of types: every row of the target with every row of the source."""
    height = 10
    ours = [[*pair.ours, *[None] * (height - len(pair.ours))] for pair in PAIRS]
    theirs = [[*pair.theirs, *[None] * (height - len(pair.theirs))] for pair in PAIRS]

    def frame(prefix: str, types: list[DataType], columns: list[list[Any]]) -> Any:
        fields = [Field(f"{prefix}{i}", type_) for i, type_ in enumerate(types)]
        schema = Struct((*fields, Field(f"{prefix}_at", P("long"))))
        arrays = [pa.array(v, f.type) for v, f in zip([*columns, range(height)], arrow_schema(schema), strict=True)]
        return spark.createDataFrame(pa.table(arrays, arrow_schema(schema)), spark_struct(schema.fields))

    questions = []
    for i, pair in enumerate(PAIRS):
        left, right = F.col(f"k{i}"), F.col(f"s{i}")
        source = Struct((Field("s", pair.source),))
        values = gathered([{"s": v} for v in theirs[i]], [Key(f"k{i}", "s")], source)
        inside = below(row_group_filter(values, Struct((Field(f"k{i}", pair.target),))), F.col)
        questions.append(F.array(left == right, left.eqNullSafe(right), inside).alias(f"p{i}"))
    every = frame("k", [p.target for p in PAIRS], ours).crossJoin(frame("s", [p.source for p in PAIRS], theirs))
    for row in every.select("k_at", "s_at", *questions).collect():
        for i in range(len(PAIRS)):
            equal, same_or_null, inside = row[f"p{i}"]
            a, b = ours[i][row["k_at"]], theirs[i][row["s_at"]]
            assert (equal is True, same_or_null) == (same(a, b, False), same(a, b, True))
            assert inside or not equal
