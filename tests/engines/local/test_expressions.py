"""Expressions without Spark: the same values as Spark gives, or a refusal before any row is read."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import re
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast.engines.local.expressions.evaluable import Scope
from holdfast.engines.local.expressions.evaluate import condition, evaluable
from holdfast.errors import Invalid, UnknownColumn, Unsupported
from holdfast.schema.arrow import arrow_schema
from holdfast.schema.types import LONG, STRING, Decimal, Field, Primitive, Struct
from tests.support.depth import DEPTH

INNER = Struct((Field("a", LONG), Field("b c", STRING)))
SCHEMA = Struct(
    (
        Field("i", Primitive("integer")),
        Field("l", LONG),
        Field("t", Primitive("byte")),
        Field("f", Primitive("float")),
        Field("d", Primitive("double")),
        Field("x", Decimal(10, 2)),
        Field("w", STRING),
        Field("o", Primitive("boolean")),
        Field("day", Primitive("date")),
        Field("at", Primitive("timestamp")),
        Field("here", Primitive("timestamp_ntz")),
        Field("s", INNER),
    )
)
NAN, INF = float("nan"), float("inf")
DAY, NOON = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12)
ROWS = [
    (1, 2, 3, 1.5, -0.0, "1.25", "Ab", True, DAY, NOON, NOON, {"a": 1, "b c": "q"}),
    (-7, 2**40, -4, NAN, NAN, "-99.99", "äÖ", False, dt.date(1969, 7, 20), dt.datetime(1969, 7, 20), NOON, None),
    (0, 0, 0, 0.0, 0.0, "0.00", "", None, dt.date(1, 1, 1), NOON, None, {"a": None, "b c": None}),
    (2**31 - 1, 5, 127, INF, -INF, "12345.67", "12", True, None, None, dt.datetime(2024, 2, 29), {"a": 5, "b c": "A"}),
    (None, None, None, None, None, None, None, None, None, None, None, None),
    (5, 5, 5, 5.0, 5.0, "5.00", "a\nb", False, DAY, dt.datetime(2024, 2, 29), NOON, {"a": 5, "b c": "a"}),
]


def batch() -> pa.RecordBatch:
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS]
    for row in rows:
        row["x"] = None if row["x"] is None else decimal.Decimal(str(row["x"]))
        row["at"] = None if row["at"] is None else row["at"].replace(tzinfo=dt.UTC)  # type: ignore[attr-defined]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(SCHEMA))


AGREED = [
    *("i", "L", "tt.i", "TT.`s`.a", "s.a", "s.`b c`", "`tt`.`i`", "(i)", "s"),
    *("1", "-1", "3000000000", "1.50", "-0.05", "1e3", "'it''s'", "true", "NULL", "date'2024-02-29'", "1L", "1.5D"),
    *("timestamp'2024-02-29 12:00:00'", "timestamp'2024-02-29T12:00:00+01:00'", "timestamp_ntz'2024-02-29 12:00:00'"),
    *("l + 1", "l - i", "t - t", "t * 1L", "i / 2", "i % 3", "l % -4", "-l", "-d", "d * 2 + f", "d % 2", "i - 1 - 1"),
    *("f + f", "f + i", "d / 4", "t / 4", "x + 1", "x * 2", "x - x", "x * x", "i + x"),
    *("x + 1.5", "d + 0.1", "-x", "abs(i)", "abs(d)", "abs(x)", "i * 1.5", "1 + 2 * 3 - 4 / 2"),
    *(
        "i = l",
        "i < l",
        "i <= 5",
        "i <> 5",
        "i != 5",
        "i == 5",
        "i > 0.5",
        "d > 0.5",
        "d = f",
        "d < f",
        "d <= f",
        "d >= f",
    ),
    *("d <> f", "f = 1.5", "d = 0", "d = -0.0", "d <=> f", "d = d", "d > d", "d >= d"),
    *("w = 'Ab'", "w < 'b'", "w >= ''", "w <=> NULL", "w = NULL", "NULL <=> NULL", "NULL = 1", "o = true", "o > false"),
    *(
        "x = 5",
        "x > 1.249",
        "x < i",
        "x = l",
        "day = date'2024-02-29'",
        "day >= '2024-01-01'",
        "at > '2024-02-29 11:00:00'",
    ),
    *(
        "at = here",
        "day = at",
        "day < here",
        "here >= timestamp_ntz'2024-02-29 00:00:00'",
        "l = '5'",
        "s.a = 5",
        "1 = 1",
    ),
    *(
        "i IS NULL",
        "i IS NOT NULL",
        "NOT o",
        "!o",
        "o IS TRUE",
        "o IS NOT FALSE",
        "s IS NULL",
        "isnull(w)",
        "isnotnull(w)",
    ),
    *(
        "o AND i > 0",
        "o OR i > 0",
        "NULL AND o",
        "NULL OR o",
        "NOT (o OR NULL)",
        "o AND o AND i = 1",
        "i = 1 OR i = 5 OR o",
    ),
    *(
        "i IN (1, 5)",
        "i NOT IN (1, 5)",
        "i IN (1, NULL)",
        "d IN (0, 5.0)",
        "d IN (-0.0)",
        "w IN ('Ab', '')",
        "x IN (5, 1.25)",
    ),
    *(
        "day IN (date'2024-02-29')",
        "i IN (1L, 5)",
        "i BETWEEN 0 AND 5",
        "i NOT BETWEEN l AND 9",
        "w BETWEEN 'A' AND 'b'",
    ),
    *("CASE WHEN o THEN i WHEN i = 0 THEN l ELSE 1.5 END", "CASE i WHEN 1 THEN 'one' WHEN 5 THEN w END"),
    *(
        "CASE WHEN i <> 0 THEN 10 / i ELSE 0 END",
        "if(o, s, NULL)",
        "if(i > 0, 'p', 'n')",
        "coalesce(i, l, 7)",
        "nvl(w, '?')",
    ),
    *("coalesce(s.a, i)", "coalesce(NULL, x)", "if(i = 0, 0, 100 % i)", "i <> 0 AND 10 / i > 1", "i = 0 OR 10 / i > 1"),
    *("upper(w)", "lower(w)", "ucase(w)", "w || '!' || i", "concat(w, l, o)", "w || NULL", "length(w)"),
    *(
        "cast(i AS bigint)",
        "cast(t AS double)",
        "cast(i AS string)",
        "cast(o AS string)",
        "cast(day AS string)",
        "int(t)",
    ),
    *(
        "cast(x AS decimal(12, 1))",
        "cast(t AS decimal(12, 3))",
        "i::long",
        "cast(d + 0.6 AS float)",
        "cast(at AS date)",
    ),
    *(
        "cast(day AS timestamp)",
        "cast(here AS date)",
        "cast(NULL AS int)",
        "cast(if(d BETWEEN -6 AND 6, d, 0) AS int)",
        "cast('12' AS int)",
    ),
    *("cast(if(w = '12', w, ' 7 ') AS bigint)", "cast(0.1 AS double)", "cast('2024-02-29' AS date)"),
    *("w LIKE 'A%'", "w LIKE '_b'", "w LIKE 'a_b'", "w NOT LIKE '%b'", "w LIKE '%'", "w LIKE ''", "w LIKE '1.'"),
    *(
        "i IS DISTINCT FROM 5",
        "d IS NOT DISTINCT FROM f",
        "(i = 1) = o",
        "s.a + i",
        "NOT i = 1",
        "day IS NULL OR day > here",
    ),
]


def test_values_are_sparks(spark: SparkSession) -> None:
    rows = batch()
    frame = spark.createDataFrame(pa.Table.from_batches([rows])).alias("tt")
    told = frame.select(*(F.expr(text).alias(f"c{at}") for at, text in enumerate(AGREED))).toArrow()
    wrong = {}
    for at, text in enumerate(AGREED):
        made = evaluable(text, [Scope(SCHEMA, "tt")])
        got, wanted = made(rows).to_pylist(), told.column(at).to_pylist()
        if repr(got) != repr(wanted) or arrow_type_text(made(rows).type) != arrow_type_text(told.column(at).type):
            wrong[text] = (got, wanted, made(rows).type, told.column(at).type)
    assert not wrong, wrong


def arrow_type_text(type_: pa.DataType) -> str:
    return str(type_).replace(" not null", "").replace("timestamp[us, tz=Etc/UTC]", "timestamp[us, tz=UTC]")


LEAVES = {
    "number": ["i", "l", "t", "d", "f", "x", "s.a", "0", "-1", "2.5", "1e0", "NULL"],
    "text": ["w", "s.`b c`", "'Ab'", "''", "NULL"],
    "truth": ["o", "true", "false", "cast(NULL AS boolean)"],
}


def random_expression(rng: random.Random, kind: str, depth: int) -> str:
    """An expression that raises on no row, of a kind."""

    def inner(of: str) -> str:
        return f"({random_expression(rng, of, depth - 1)})"

    if not depth:
        return rng.choice(LEAVES[kind])
    either = rng.choice(["number", "text", "truth"])
    made = {
        "number": ["if({t}, {n}, {n})", "coalesce({n}, {n})", "CASE {n} WHEN {n} THEN {n} ELSE {n} END", "length({w})"],
        "text": ["{w} || {w}", "if({t}, {w}, {w})", "coalesce({w}, {w})", "lower({w})", "CASE WHEN {t} THEN {w} END"],
        "truth": [
            *("{t} AND {t}", "{t} OR {t}", "NOT {t}", "{e} IS NULL", "{e} <=> {f}", "{e} = {f}", "{e} <> {f}"),
            *(
                "{n} < {n}",
                "{n} <= {n}",
                "{w} > {w}",
                "{n} BETWEEN {n} AND {n}",
                "{n} IN (1, 5, NULL)",
                "{w} LIKE '_b%'",
            ),
        ],
    }[kind]
    same = inner(either)
    text = rng.choice(made).replace("{e}", same).replace("{f}", inner(either))
    while (at := re.search(r"\{([ntw])\}", text)) is not None:
        text = text[: at.start()] + inner({"n": "number", "t": "truth", "w": "text"}[at[1]]) + text[at.end() :]
    return text


def test_random_expressions_are_sparks_where_they_are_understood(spark: SparkSession) -> None:
    rng, rows = random.Random(DEPTH), batch()
    understood: dict[str, list[Any]] = {}
    for _ in range(150 * DEPTH):
        text = random_expression(rng, rng.choice(["number", "text", "truth"]), rng.choice([1, 2, 3]))
        with suppress(Unsupported):
            understood[text] = evaluable(text, [Scope(SCHEMA, "tt")])(rows).to_pylist()
    assert len(understood) > 50
    frame = spark.createDataFrame(pa.Table.from_batches([rows])).alias("tt")
    told = frame.select(*(F.expr(text).alias(f"c{at}") for at, text in enumerate(understood))).toArrow()
    wanted = {text: told.column(at).to_pylist() for at, text in enumerate(understood)}
    assert {t: v for t, v in understood.items() if repr(v) != repr(wanted[t])} == {}


@pytest.mark.parametrize(
    "text",
    [
        *("hash(i)", "rand()", "current_date", "i DIV 2", "x / 2", "x % 2", "x * 1000000000000000000000000000000.5"),
        *(
            "w || i + 1",
            "i = l = 1",
            "(o AND o) = i IS NULL",
            "w = 5.5",
            "w > i",
            "cast(d AS string)",
            "try_cast(w AS int)",
        ),
        *(
            "i IN (l)",
            "i IN (SELECT 1)",
            "w RLIKE 'a'",
            "w ILIKE 'a'",
            "s = s",
            "s < s",
            "i + 1 -- one",
            "x = d",
            "x + d",
        ),
        *(
            r"w = 'a\\b'",
            'w = "Ab"',
            "w LIKE 'a' ESCAPE '/'",
            "cast(w AS date)",
            "cast(at AS string)",
            "i & 1",
            "s['a']",
        ),
        *(
            "if(o, 1)",
            "day = 'today'",
            "at > '2024'",
            "cast(i AS interval)",
            "w + 1",
            "o + 1",
            "",
            "((",
            "x'ff'",
            "i[0]",
        ),
        *("concat(w, d)", "upper(i)", "length(day)", "CASE WHEN o THEN 'a' ELSE 1 END"),
    ],
)
def test_the_rest_is_sparks(text: str) -> None:
    with pytest.raises(Unsupported, match=r"only Spark|parentheses"):
        evaluable(text, [Scope(SCHEMA, "tt")])


def test_a_column_is_sparks() -> None:
    with pytest.raises(Unsupported, match="only Spark can evaluate the Column"):
        evaluable(object(), [Scope(SCHEMA)])


@pytest.mark.parametrize(
    "text",
    [
        *("i + i", "2147483647 + t", "t * t", "abs(i) * 2", "1 / i", "l % t"),
        *("d / 0", "cast(d AS int)", "cast(l AS int)", "cast(w AS int)", "cast(x * 1000 AS decimal(5, 2))", "int(f)"),
    ],
)
def test_what_raises_on_spark_raises_here(text: str, spark: SparkSession) -> None:
    made = evaluable(text, [Scope(SCHEMA)])
    with pytest.raises(Invalid, match="has no value for some row"):
        made(batch())
    with pytest.raises(PySparkException):
        spark.createDataFrame(pa.Table.from_batches([batch()])).select(F.expr(text)).toArrow()


def test_letters_whose_case_is_not_simple_are_sparks() -> None:
    rows = pa.RecordBatch.from_pydict({"w": ["aß", "ΑΣ"]})
    schema = [Scope(Struct((Field("w", STRING),)))]
    assert evaluable("lower(w)", schema)(rows.slice(0, 1)).to_pylist() == ["aß"]
    for text, row in (("upper(w)", 0), ("lower(w)", 1)):
        with pytest.raises(Unsupported, match="change the case"):
            evaluable(text, schema)(rows.slice(row, 1))


def test_names_belong_to_a_side() -> None:
    left = Scope(Struct((Field("id", LONG), Field("s", INNER))), "t", "target.")
    right = Scope(Struct((Field("ID", LONG), Field("only", LONG), Field("a", LONG))), "s", "source.")
    columns = {
        "t.id": "target.id",
        "S.id": "source.ID",
        "only": "source.only",
        "s.a": "source.a",  # an alias goes before a struct
        "t.s.a": "target.s",
        "s.`b c`": "target.s",
    }
    for text, column in columns.items():
        assert evaluable(text, [left, right]).columns == {column}
    with pytest.raises(Invalid, match="either side"):
        evaluable("id = 1", [left, right])
    with pytest.raises(UnknownColumn, match="did you mean only"):
        evaluable("onyl = 1", [left, right])
    with pytest.raises(UnknownColumn, match=r"'t\.only'"):
        evaluable("t.only", [left, right])
    with pytest.raises(UnknownColumn, match="has no field"):
        evaluable("t.s.z", [left, right])


def test_a_condition_is_true_or_false() -> None:
    with pytest.raises(Invalid, match="must be true or false"):
        condition("i + 1", [Scope(SCHEMA)])
    assert condition("NULL", [Scope(SCHEMA)]).holds(batch()).tolist() == [False] * len(ROWS)


def test_times_are_where_the_session_is() -> None:
    rows = batch()
    noon = "at = timestamp'2024-02-29 13:00:00'"
    assert condition(noon, [Scope(SCHEMA)], zone="Europe/Vienna").holds(rows).tolist()[0]
    assert not condition(noon, [Scope(SCHEMA)]).holds(rows).any()
    with pytest.raises(Unsupported, match="convert date to timestamp"):
        condition("day = at", [Scope(SCHEMA)], zone="Europe/Vienna")


def test_columns_that_compare_by_more_than_their_bytes_are_sparks() -> None:
    field = Field("w", STRING, metadata={"__COLLATIONS": {"w": "spark.UTF8_LCASE"}})
    assert evaluable("w", [Scope(Struct((field,)))]).columns == {"w"}
    with pytest.raises(Unsupported, match="collation"):
        evaluable("w = 'a'", [Scope(Struct((field,)))])
