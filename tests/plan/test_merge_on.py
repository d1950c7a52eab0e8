"""What the condition of a MERGE says: keys, conditions on the target alone, and the columns it may use."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from holdfast.engines.spark.types import spark_struct
from holdfast.plan.dml.change import Key
from holdfast.plan.dml.merge_condition import On, parse_merge_condition, references, source_aliases
from holdfast.predicate.parse import parse
from holdfast.predicate.records import ALWAYS, Column, columns_of
from holdfast.predicate.render import render
from holdfast.schema.types import LONG, STRING, DataType, Field, Primitive, Struct


def struct(**types: DataType) -> Struct:
    return Struct(tuple(Field(name, type_) for name, type_ in types.items()))


INNER = struct(x=LONG, id=LONG)
TARGET = struct(Id=LONG, v=STRING, only_t=LONG, st=INNER, day=Primitive("date"))
SOURCE = struct(ID=LONG, V=STRING, only_s=LONG, rec=INNER, day=Primitive("date"))


def on(text: str, target: Struct = TARGET, source: Struct = SOURCE, aliases: tuple[Any, Any] = ("t", "s")) -> On:
    return parse_merge_condition(text, target, source, *aliases)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("t.id = s.id", "Id=ID"),
        ("s.id == t.id", "Id=ID"),
        ("(((T.`ID`) = (`s`.Id)))", "Id=ID"),
        ("t.id <=> s.id", "Id<=>ID"),
        ("t.id IS NOT DISTINCT FROM s.id", "Id<=>ID"),
        ("t.id = s.id AND (s.v = t.v AND t.day <=> s.day)", "Id=ID v=V day<=>day"),
        ("only_t = only_s", "only_t=only_s"),
        ("only_s = t.id and only_t = s.id", "Id=only_s only_t=ID"),
        ("t.id = s.id and t.id = s.only_s and t.id = s.id", "Id=ID Id=only_s"),
        ("t.id = s.id and holdfast_unreadable()", "Id=ID"),
        ('t.id = s.id and s.v = "x"', "Id=ID"),
        # no keys
        ("id = s.id", ""),
        ("id = only_s", ""),
        ("t.id = s.id or t.v = s.v", ""),
        ("not (t.id = s.id)", ""),
        ("not t.id = s.id", ""),
        ("! t.id = s.id", ""),
        ("t.id = s.id = true", ""),
        ("t.id = s.id is null", ""),
        ("t.id = s.id < 3", ""),
        ("t.id = t.only_t", ""),
        ("s.id = s.only_s", ""),
        ("t.id = s.id + 0", ""),
        ("t.st.x = s.id", ""),
        ("st.x = s.id", ""),
        ("t.id = s.rec.id", ""),
        ("x.id = s.id", ""),
        ("t.id = s.nothing", ""),
        ("t.v = s.v collate utf8_lcase", ""),
        ("t.id = cast(s.id as int)", ""),
        ("t.id > s.id", ""),
        ("t.id in (s.id)", ""),
        ("holdfast_unreadable() = s.id", ""),
        ("t.id = s.id -- and", ""),
        ("t.id = ", ""),
        ("", ""),
    ],
)
def test_keys(text: str, keys: str) -> None:
    parsed = " ".join(f"{k.target}{'<=>' if k.null_safe else '='}{k.source}" for k in on(text).keys)
    assert parsed == keys


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("t.id = s.id", "true"),
        ("t.id = s.id and t.id > 3 and t.v like 'a%'", "Id > 3 AND v LIKE 'a%'"),
        ("t.id = s.id and (t.st.x = 1 or only_t in (1, 2))", "st.x = 1 OR only_t IN (1, 2)"),
        ("st.x = 1 and T.ST.ID is null", "st.x = 1 AND st.id IS NULL"),
        ("t.day >= date '2020-01-01' and t.day = s.day", "day >= '2020-01-01'"),
        ("t.v like 'a%b'", "v LIKE 'a%'"),
        ("t.id = s.id and 1 = 1 and false", "false"),
        # those that say nothing for certain
        ("id = 3", "true"),
        ("day = date '2020-01-01'", "true"),
        ("rec.x = 3 and s.id = 4", "true"),
        ("t.id = 3 or s.id = 3", "true"),
        ("upper(t.v) = 'A' and rand() < 0.5", "true"),
        ("t.id = holdfast_unreadable()", "true"),
        ('t.v = "v"', "true"),
        (r"t.v = 'a\\b'", "true"),
        ("t.arr[0] = 3", "true"),
    ],
)
def test_conditions_on_the_target_alone(text: str, condition: str) -> None:
    assert render(on(text).target_only) == condition


def test_what_is_left_out_shows() -> None:
    for text in ("t.id = s.id", "t.id = s.id and t.v = 'a'", "only_t <=> only_s and true"):
        assert on(text).is_understood
    for text in ("t.id = s.id and s.v = 'a'", "t.id = s.id and upper(t.v) = 'A'", "t.id = s.id or true", "?"):
        assert not on(text).is_understood


def test_an_equality_need_not_be_a_key() -> None:
    for text in ("t.id = s.id", "lower(t.v) = upper(s.v)", "s.rec.x + s.id <=> t.st.x", "t.id = s.id and s.id > t.id"):
        assert on(text).has_equality
    for text in ("t.id > s.id", "t.id = 3", "t.id + s.id = 3", "t.id = t.only_t", "t.id = s.id or true", "id = s.id"):
        assert not on(text).has_equality


def test_a_qualifier_goes_before_a_struct_of_its_name() -> None:
    target = struct(s=INNER, a=LONG)
    source = struct(id=LONG, t=INNER)
    assert on("s.x = 1", target, source).target_only == parse("s.x = 1", target)
    assert on("s.id = 1", target, source).target_only == ALWAYS
    assert on("t.a = s.id", target, source).keys == (Key("a", "id"),)
    assert on("t.id = 1", target, source).target_only == ALWAYS


def test_a_side_without_an_alias_may_have_one_that_is_not_known() -> None:
    target = struct(x=struct(id=LONG, y=LONG), a=LONG)
    source = struct(id=LONG, b=LONG)
    assert on("x.id = 1", target, source, ("t", None)).target_only == ALWAYS
    assert on("x.y = 1", target, source, ("t", None)).target_only == parse("x.y = 1", target)
    assert on("x.id = 1", target, source, ("t", "s")).target_only == parse("x.id = 1", target)
    assert on("x.s.id = 1", struct(x=struct(s=INNER)), source, ("t", "s")).target_only == ALWAYS
    assert on("a = b", target, source, (None, None)).keys == (Key("a", "b"),)
    assert on("t.a = s.b", target, source, (None, None)).keys == ()


def test_aliases_that_differ_in_case_only() -> None:
    assert on("t.id = T.only_s", aliases=("t", "T")).keys == (Key("Id", "only_s"),)
    assert on("t.id = T.id", aliases=("t", "T")).keys == (Key("Id", "ID"),)
    assert on("t.id = t.id", aliases=("t", "t")).keys == ()


def test_names_that_need_quotes() -> None:
    odd = struct(**{"a b": LONG, "c.d": LONG, "e`f": LONG, "select": LONG})
    text = " and ".join(f"`my t`.{_quoted(n)} = s.{_quoted(n)}" for n in odd.names)
    parsed = on(f"{text} and `my t`.`c.d` > 3", odd, odd, ("my t", "s"))
    assert parsed.keys == tuple(Key(n, n) for n in odd.names)
    assert parsed.target_only == parse("`c.d` > 3", odd)
    assert parsed.is_understood


def test_long_conditions_are_read() -> None:
    text = " and ".join(["t.id = s.id", *(f"t.only_t <> {i}" for i in range(1000))])
    assert on(text).is_understood


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("s.id", "ID"),
        ("t.id + s.only_s", "only_s"),
        ("id + only_t", "ID"),
        ("coalesce(s.rec.x, rec.id, s.v)", "V rec"),
        ("s.rec", "rec"),
        ("db.s.only_s", "only_s"),
        ("'only_s'", "only_s"),  # a word in a string counts: more is never wrong
        ("1", ""),
        ("t.day", ""),
        ("f(s.id).x[only_s]", "ID only_s"),
        ("case when s.v = 'a' then t.only_t else only_s end", "V only_s"),
        ("s.id between t.id and s.only_s", "ID only_s"),
        ("extract(day from s.v)", "V day"),
        ("s.*", None),
        ("holdfast_unreadable() + s.id", None),
        ("exists(s.v, x -> x = s.id)", None),
        ("(select max(id) from u)", None),
        ('s.id = "v"', None),
        ("s.id /* and s.v */", None),
        ("s.id +", None),
    ],
)
def test_references(text: str, columns: str | None) -> None:
    used = references(text, SOURCE, "s")
    assert used is None if columns is None else used == frozenset(columns.split())


def test_references_without_an_alias_are_any_that_may_be_meant() -> None:
    assert references("x.id + y.v + rec.x", SOURCE, None) == frozenset({"ID", "V", "rec"})
    assert references("t.id + y.v + rec.x", SOURCE, "s") == frozenset({"rec"})


def test_a_column_called_like_a_function() -> None:
    called = struct(current_date=LONG, user=LONG, id=LONG)
    assert references("current_date", called, "s") == frozenset({"current_date"})
    assert references("user = s.id", called, "s") == frozenset({"user", "id"})
    assert on("t.id = current_date", source=called).keys == ()


def test_what_a_source_is_called() -> None:
    target, source = struct(id=LONG, s=struct(x=LONG), w=LONG), struct(id=LONG, v=LONG, rec=struct(v=LONG))
    assert source_aliases(["t.id = s.id", "SRC.v", "`my s`.id"], target, source, "t") == {"s", "src", "my s"}
    assert source_aliases(["t.id = id", "s.x > 1", "rec.v", "broken ("], target, source, "T") == frozenset()
    assert source_aliases(["s.id = 1", "s.x = 2", "z.*"], target, source, None) == {"s", "z"}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


SIDES = [
    (struct(id=LONG, t=INNER, only_t=LONG), struct(id=LONG, s=INNER, only_s=LONG)),
    (struct(id=LONG, s=INNER, v=LONG), struct(id=LONG, t=INNER, x=LONG)),
    (struct(x=INNER, t=LONG), struct(x=LONG, id=LONG, s=struct(s=INNER))),
]


@pytest.mark.parametrize(("target", "source"), SIDES)
def test_spark_resolves_names_to_the_same_columns(spark: SparkSession, target: Struct, source: Struct) -> None:
    """Every leaf holds a number of its own, so a value tells which column Spark took a name for."""
    leaves: list[tuple[str, Column]] = []

    def fill(side: str, path: Column, type_: DataType) -> Any:
        if isinstance(type_, Struct):
            return tuple(fill(side, (*path, f.name), f.type) for f in type_)
        leaves.append((side, path))
        return len(leaves) - 1

    frames = {
        alias: spark.createDataFrame([fill(alias, (), schema)], spark_struct(schema.fields)).alias(alias)
        for alias, schema in (("t", target), ("s", source))
    }
    joined = frames["t"].crossJoin(frames["s"])
    words = ("id", "t", "s", "x")
    paths = (n for size in (1, 2, 3) for n in product(words, repeat=size))
    names = [".".join(n) for n in paths if len(n) < 3 or (n[0] in "ts" and n[2] == "x")]
    resolved: dict[str, Any] = {}
    for name in names:
        with suppress(AnalysisException):
            resolved[name] = joined.select(F.col(name)).schema
    leaf_names = [n for n, schema in resolved.items() if schema.fields[0].dataType == LongType()]
    row = joined.select([F.col(n).alias(str(i)) for i, n in enumerate(leaf_names)]).collect()[0]
    assert len(leaf_names) > 5
    for at, name in enumerate(leaf_names):
        side, path = leaves[row[at]]
        for aliases in (("t", "s"), ("t", None), (None, "s")):
            stated = columns_of(on(f"{name} = 1", target, source, aliases).target_only)
            assert stated <= ({path} if side == "t" else set())
            assert aliases != ("t", "s") or stated or side == "s"
            for alias, schema, whose in ((aliases[0], target, "t"), (aliases[1], source, "s")):
                assert path[0] in (references(name, schema, alias) or ()) or side != whose
