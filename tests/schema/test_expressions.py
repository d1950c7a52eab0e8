"""What an expression in a table's metadata may say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.dml.stored import _BUILT_IN, refuse_shadowed
from holdfast.engines.spark.types import spark_struct
from holdfast.errors import Unsupported
from holdfast.schema.ddl import parse_type
from holdfast.schema.expressions import stored
from holdfast.schema.functions import DETERMINISTIC, FOR_DEFAULTS
from holdfast.schema.types import Field, Primitive, Struct

_COLUMNS = """struct<a: int, b: string, `we``ird`: int, arr: array<int>, m: map<string, int>,
    s: struct<x: int, y: struct<z: int>>, ts: timestamp, date: date, user: string>"""
_SCHEMA = parse_type(_COLUMNS.replace("\n", " "))
assert isinstance(_SCHEMA, Struct)
SCHEMA: Struct = _SCHEMA

GOOD = [
    "a > 0",
    " A + 1 * -2 % 3 > -1",
    "b LIKE '%x' ESCAPE '!'",
    "not (a between 1 and 2) or b in ('x', \"y\")",
    "case when a>1 then 'x' else b end = b",
    "case a when 1 then true else false end",
    "cast(ts as date) = ts::date",
    "year(date) > 2000 and date > date '2020-01-01'",
    "date_trunc('DAY', ts) <= timestamp '2020-01-01 00:00:00'",
    "size(transform(arr, x -> x + a)) > 0",
    "aggregate(arr, 0, (acc, x) -> acc + x) > 1",
    "exists(arr, x -> x > 1)",
    "arr[0] = m['k']",
    "s.y.z <=> s.x",
    "substring(b from 1 for 2) = trim(both 'x' from b)",
    "extract(year from ts) = 1 and position('a' in b) > 0",
    "ts + interval 1 day 2 hours > ts - interval '1-2' year to month",
    "user = 'x'",
    "`we``ird` >= .5e3",
    r"b rlike r'\d+' and b not regexp '[a-z]' and b <> 'a\'b' and b <> 'it''s'",
    "a is not distinct from 1 and b is not null",
    "cast(arr as array<bigint>) is null",
    "from_json(b, 'a int').a = 1",
    "b like any ('a','b')",
    "timestampadd(HOUR, 1, ts) > ts or datediff(date, date) = 0",
    "struct(a as x, b).x = 1",
    "if(a > 1, true, false)",
    "a >> 1 = 2 and a & 3 <> ~a | 1",
    "named_struct('a', 1).a = 1",
    "transform(array(arr), x -> transform(x, y -> y + size(x) + a)) is null",
    "aggregate(arr, 0, (acc, x) -> acc + x, acc -> acc * 10) > try_divide(a, 0)",
    "array_sort(arr, (l, r) -> case when l < r then -1 else 1 end)[0] = try_cast(b as int)",
    "map_filter(m, (k, v) -> v > 1) is not null and zip_with(arr, arr, (x, y) -> x - y) is null",
    "ts - ts < cast('1' as interval day) or ts + interval '1 02:03:04' day to second > ts",
    "collate(b, 'UTF8_LCASE') = b collate UTF8_LCASE",
    "a" + " + a" * 250,
    "a in (" + ", ".join(f"-{n}" for n in range(2000)) + ")",
]

REFUSED = {
    "java_method('java.lang.Runtime', 'getRuntime')": "calls java_method",
    "reflect('a', 'b') = 1": "calls reflect",
    "try_reflect('a', 'b') = 1": "calls try_reflect",
    "`java_method`('x')": "calls `java_method`",
    "a = 1 and JAVA_METHOD ('x')": "calls java_method",
    "transform(arr, x -> java_method(x))": "calls java_method",
    "arr[java_method('x')]": "calls java_method",
    "a between java_method('x') and 2": "calls java_method",
    "cast(java_method('x') as int)": "calls java_method",
    "s.y(1)": r"calls s\.y",
    "system.builtin.upper(b)": "names system",
    "mine(a)": "calls mine",
    "(select 1)": r"asks for rows \(select\)",
    "a in (select 1)": r"asks for rows \(select\)",
    "exists(select 1)": r"asks for rows \(select\)",
    "a in (values 1)": r"asks for rows \(values\)",
    "(table t) = 1": r"asks for rows \(table\)",
    "(map (a) using 'sh' from t)": "cannot be read at 'using'",
    "count(a) > 1": "calls count",
    "sum(a) over () > 1": "calls sum",
    "explode(arr)": "calls explode",
    "read_files('/etc/passwd')": "calls read_files",
    "from_avro(b, 'x')": "calls from_avro",
    "xpath_string(b, 'x')": "calls xpath_string",
    "identifier('a')": "calls identifier",
    "rand() > 1": "calls rand",
    "uuid() = b": "calls uuid",
    "current_date > date": "calls current_date",
    "current_user() = b": "calls current_user",
    "unix_timestamp() > 1": "calls unix_timestamp without arguments",
    "input_file_name() = b": "calls input_file_name",
    "version() = b": "calls version",
    "raise_error('x')": "calls raise_error",
    "a_variable > 1": "names a_variable",
    "_metadata.file_path = b": "names _metadata",
    "'${env:HOME}' = b": r"has \$\{",
    "`${env:HOME}` = b": r"has \$\{",
    "a = 1 -- x": "cannot be read at '-- x'",
    "a /* x */ = 1": "cannot be read",
    "/*+ hint */ a": "cannot be read",
    "a = ?": "cannot be read",
    "a = :p": "cannot be read",
    "a = 1; drop table t": "cannot be read",
    "a\u00a0= 1": "cannot be read",
    "a = 'open": "cannot be read",
    'b = "a""b"': "cannot be read",
    "upper(b) filter (where a)": "has 'filter' where nothing is expected",
    "a b": "has 'b' where nothing is expected",
    "count(*) > 0": "calls count",
    "abs(*)": r"cannot be read at '\*'",
    "abs(a => 1)": "cannot be read at '>'",
    "a.*": r"cannot be read at '\*', where a name is expected",
    "a =": "ends too early",
    "": "ends too early",
    "(" * 5000 + "a" + ")" * 5000: "is nested more than 60 deep",
    "cast(a as " + "array<" * 5000 + "int" + ">" * 5000 + ")": "is nested more than 60 deep",
    "a = 1 or " * 10_000 + "a = 1": "has 90005 characters, and at most 65536 are read",
    "cast(a as java_class)": "casts to java_class",
    "cast(a as interval fortnight)": "cannot be read at 'fortnight'",
    "a" + " + a" * 5000: "has chains of more than 300 operators",
    "not " * 5000 + "true": "has chains of more than 300 operators",
    "- " * 5000 + "a": "has chains of more than 300 operators",
    "a" + "::int" * 5000: "has chains of more than 300 operators",
    "x" * (1 << 20): "has 1048576 characters",
    "`a``` > 1": "names a`,",
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.items(), ids=lambda value: value[:30])
def test_what_is_refused_is_named(text: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=rf"^(?s:the CHECK constraint c \(.*\)) {reason}"):
        stored(text, SCHEMA, "CHECK constraint c")


@pytest.mark.parametrize("text", ["current_timestamp", "CURRENT_TIMESTAMP()", "uuid()", "current_user", "now()"])
def test_a_default_may_say_when_and_by_whom(text: str) -> None:
    name = text.lower().removesuffix("()")
    default = stored(text, SCHEMA, "default", default=True)
    assert (default.sql, default.functions) == (f"{name} ( )", {name})
    with pytest.raises(Unsupported, match=f"calls {name}"):
        stored(text, SCHEMA, "generated column g")


@pytest.mark.parametrize("text", ["a", "rand()", "java_method('x')", "(select 1)", "session_var"])
def test_a_default_may_say_no_more_than_that(text: str) -> None:
    with pytest.raises(Unsupported):
        stored(text, SCHEMA, "default", default=True)


def test_names_are_quoted_whatever_they_hold() -> None:
    odd = Struct(tuple(Field(name, Primitive("integer")) for name in ("größe", "a`b", "``", "select", "x) or (y")))
    expression = stored("`GRÖSSE` > `a``b` + `````` - `select` + `x) or (y`".replace("SS", "ß"), odd, "c")
    assert expression.sql == "`größe` > `a``b` + `````` - `select` + `x) or (y`"


@pytest.mark.parametrize(
    ("class_name", "is_sparks"),
    [
        ("org.apache.spark.sql.catalyst.expressions.SoundEx", True),
        ("org.apache.spark.sql.catalyst.expressions.st.ST_Srid", True),
        ("org.apache.spark.sql.execution.python.UserDefinedPythonFunction$$Lambda/0x1", False),
        ("org.apache.spark.sql.catalyst.catalog.SQLFunction", False),
        ("org.apache.spark.sql.catalyst.expressionsx.Mine", False),
        ("", False),
        (None, False),
    ],
)
def test_a_function_in_the_place_of_a_built_in_one_is_refused(class_name: str | None, is_sparks: bool) -> None:
    """Spark 4.0 and 4.1 let a session replace a built-in function; later ones prefer their own."""
    session: Any = SimpleNamespace(
        catalog=SimpleNamespace(getFunction=lambda name: SimpleNamespace(className=class_name))
    )
    expressions = [stored("soundex(b) = 'x'", SCHEMA, "c"), stored("a > 1", SCHEMA, "c")]
    if is_sparks:
        refuse_shadowed(session, expressions)
        return
    with pytest.raises(Unsupported, match=r"a function soundex of its own .*soundex\(b\) = 'x'.*DROP TEMPORARY"):
        refuse_shadowed(session, expressions)
    refuse_shadowed(session, expressions[1:])


def test_what_is_evaluated_is_what_was_read() -> None:
    expression = stored('UPPER(B) = "x" and not `a`=1', SCHEMA, "c")
    assert expression.sql == "upper ( `b` ) = 'x' AND NOT `a` = 1"
    assert (expression.columns, expression.functions) == (("b", "a"), {"upper"})
    assert stored(expression.sql, SCHEMA, "c").sql == expression.sql


def test_spark_reads_the_same_and_has_every_function(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], spark_struct(SCHEMA.fields))
    expressions = [stored(text, SCHEMA, "c") for text in GOOD]
    ours = frame.select(*(F.expr(e.sql).alias(str(i)) for i, e in enumerate(expressions)))
    theirs = frame.select(*(F.expr(text).alias(str(i)) for i, text in enumerate(GOOD)))
    assert ours.schema == theirs.schema
    refuse_shadowed(spark, expressions)
    classes = {f.name: f.className for f in spark.catalog.listFunctions()}
    unknown = {name for name in DETERMINISTIC | FOR_DEFAULTS if name not in classes}
    assert all(classes[n].startswith(_BUILT_IN) for n in (DETERMINISTIC | FOR_DEFAULTS) - unknown)
    # What this Spark does not have is refused when it is needed; nothing on the list may be anything but an expression.
    assert all(".aggregate." not in classes[n] for n in (DETERMINISTIC | FOR_DEFAULTS) - unknown)
    assert not DETERMINISTIC & {"java_method", "reflect", "try_reflect", "raise_error", "input_file_name", "rand"}


def test_a_function_of_the_session_is_never_called_for_a_table(spark: SparkSession) -> None:
    spark.udf.register("mine", lambda: "mine")
    try:
        with pytest.raises(Unsupported, match="calls mine"):
            stored("mine()", SCHEMA, "generated column g")
        expression = stored("soundex(b) = 'x'", SCHEMA, "c")
        spark.udf.register("soundex", lambda text: "mine")
        if spark.catalog.getFunction("soundex").className.endswith("expressions.SoundEx"):
            assert spark.range(1).select(F.expr("soundex('a')")).head()[0] != "mine"  # this Spark prefers its own
        else:
            with pytest.raises(Unsupported, match="a function soundex of its own"):
                refuse_shadowed(spark, [expression])
    finally:
        spark.sql("DROP TEMPORARY FUNCTION IF EXISTS mine")
        spark.sql("DROP TEMPORARY FUNCTION IF EXISTS soundex")
