"""Columns with defaults: values for files that lack them, conditions on them, and what is written."""

from __future__ import annotations

import datetime
import decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable, IcebergTable
from holdfast.errors import Damaged
from holdfast.sql.resolver import TableResolver
from holdfast.sql.run import run
from tests.formats.iceberg.smith import Smith, column

NAMES = count()
UTC = datetime.UTC
# Of each type: the default as metadata says it, and what it reads as.
KINDS: dict[str, tuple[Any, Any]] = {
    "boolean": (True, True),
    "int": (-7, -7),
    "long": (2**40, 2**40),
    "float": (1.5, 1.5),
    "double": (-0.25, -0.25),
    "decimal(9, 2)": ("14.20", decimal.Decimal("14.20")),
    "date": ("0007-11-16", datetime.date(7, 11, 16)),
    "timestamp": ("1500-11-16T22:31:08.000001", datetime.datetime(1500, 11, 16, 22, 31, 8, 1)),
    "timestamptz": ("1800-11-16T22:31:08.5+02:00", datetime.datetime(1800, 11, 16, 20, 31, 8, 500000, UTC)),
    "string": ("it's \\a \u00fc\n'", "it's \\a \u00fc\n'"),
    "uuid": ("f79c3e09-677c-4bbd-a479-3f349cb785e7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    "binary": ("00ff27", b"\x00\xff'"),
    "fixed[2]": ("0a0b", b"\x0a\x0b"),
}


def with_default(number: int, name: str, type_: Any, initial: Any, write: Any = None) -> dict[str, Any]:
    return column(
        number, name, type_, **{"initial-default": initial}, **({} if write is None else {"write-default": write})
    )


def root() -> str:
    return f"memory://defaults-{next(NAMES)}/t"


def table_of(builder: Smith, spark: SparkSession | None = None) -> IcebergTable:
    return IcebergTable.forMetadata(spark, builder.metadata())


def registered(place: Path, builder: Smith, spark: SparkSession | None = None) -> IcebergTable:
    catalog = load_catalog(
        f"defaults{next(NAMES)}", type="sql", uri=f"sqlite:///{place}/c.db", warehouse=f"file://{place}"
    )
    catalog.create_namespace("db")
    catalog.register_table("db.t", builder.metadata())
    return IcebergTable.load(spark, catalog, "db.t")


def all_kinds(where: str) -> Smith:
    builder = Smith(where, [column(1, "id")], version=3)
    builder.commit([builder.data({"id": [1, 2]})])
    builder.evolve([column(1, "id"), *(with_default(i, f"c{i}", t, KINDS[t][0]) for i, t in enumerate(KINDS, 2))])
    return builder


EXPECTED = [{"id": n} | {f"c{i}": value for i, (_, value) in enumerate(KINDS.values(), 2)} for n in (1, 2)]


def test_every_type(tmp_path: Path) -> None:
    assert table_of(all_kinds(root())).toArrow().to_pylist() == EXPECTED


@pytest.mark.everywhere
def test_every_type_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(all_kinds(str(tmp_path)), spark)
    assert table.toDF().toArrow().to_pylist() == EXPECTED
    assert table.scan(where="c3 = -7 AND c10 > DATE'0007-11-15'", columns=["id"]).count() == 2
    assert table.scan(where="c3 IS NULL OR c12 = 'a'").count() == 0
    assert table_of(nested(str(tmp_path / "nested")), spark).toDF().toArrow().to_pylist() == [NESTED]


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("int", "x"),
        ("int", 2**40),
        ("boolean", 7),
        ("decimal(3, 1)", "1234.5"),
        ("date", "20"),
        ("uuid", "1"),
        ("string", 5),
    ],
)
def test_what_is_no_value_of_its_type_is_damage(kind: str, raw: Any) -> None:
    builder = Smith(root(), [with_default(1, "c", kind, raw)], version=3)
    with pytest.raises(Damaged, match=r"the initial-default .* of the column c"):
        table_of(builder)


INNER = {
    "type": "struct",
    "fields": [
        column(5, "a", "int"),
        with_default(6, "b", "string", "inside", "later"),
        with_default(7, "k", "int", 3),
    ],
}
COLUMNS = [
    column(1, "id"),
    column(2, "s", INNER),
    with_default(3, "v", "int", 5, 50),
    with_default(4, "n", "string", "old", "new"),
]
EMPTY = {"type": "struct", "fields": [with_default(9, "y", "int", 1), column(20, "w", "int")]}
LIST = {"type": "list", "element-id": 11, "element": "date"}
MAP = {"type": "map", "key-id": 13, "key": "string", "value-id": 14, "value": "int"}


def _struct(values: list[Any], **fields: tuple[int, pa.DataType]) -> pa.Array:
    return pa.array(
        values, pa.struct([pa.field(n, t, metadata={"PARQUET:field_id": str(i)}) for n, (i, t) in fields.items()])
    )


def evolved(where: str, **properties: str) -> Smith:
    """Files that lack all defaulted columns, some of them, and none."""
    builder = Smith(where, COLUMNS, version=3, properties=properties)
    a = (5, pa.int32())
    ids = {f["name"]: f["id"] for f in COLUMNS}
    builder.commit([builder.data({"id": [1, 2], "s": _struct([{"a": 1}, None], a=a)}, ids=ids)])
    whole = {
        "id": [3, 4],
        "s": _struct([{"a": 3, "b": "own", "k": None}, None], a=a, b=(6, pa.string()), k=(7, pa.int32())),
        "v": pa.array([None, 5], pa.int32()),
        "n": ["own", None],
    }
    builder.commit([builder.data(whole, ids=ids)])
    return builder


OLD = {"v": 5, "n": "old"}
ROWS: dict[int, dict[str, Any]] = {
    1: {"s": {"a": 1, "b": "inside", "k": 3}, **OLD},
    2: {"s": None, **OLD},
    3: {**OLD, "s": {"a": 3, "b": "own", "k": None}, "v": None, "n": "own"},
    4: {**OLD, "s": None, "v": 5, "n": None},
}


def rows(arrow: pa.Table) -> dict[int, dict[str, Any]]:
    return {row.pop("id"): row for row in arrow.to_pylist()}


def nested(where: str) -> Smith:
    builder = Smith(where, [column(1, "id")], version=3)
    builder.commit([builder.data({"id": [1]})])
    wide = {"z": (8, EMPTY, {}), "l": (10, LIST, ["0500-02-03"]), "m": (12, MAP, {"keys": ["x'"], "values": [9]})}
    builder.evolve([column(1, "id"), *(with_default(i, n, t, default) for n, (i, t, default) in wide.items())])
    return builder


NESTED = {"id": 1, "z": {"y": 1, "w": None}, "l": [datetime.date(500, 2, 3)], "m": [("x'", 9)]}


def test_nested_types() -> None:
    table = table_of(nested(root()))
    assert table.toArrow().to_pylist() == [NESTED]
    assert table.toArrow(where="z.y = 1 AND z.w IS NULL").num_rows == 1


CONDITIONS: dict[str, set[int]] = {
    "v = 5": {1, 2, 4},
    "v IS NULL": {3},
    "v IS NOT NULL": {1, 2, 4},
    "v > 5": set(),
    "v < 6": {1, 2, 4},
    "v <=> NULL": {3},
    "NOT (v = 5)": set(),
    "n = 'old'": {1, 2},
    "n IS NULL": {4},
    "n LIKE 'o%'": {1, 2, 3},
    "n IN ('own', 'new')": {3},
    "s.b = 'inside'": {1},
    "s.k IS NULL": {2, 3, 4},
    "s.k = 3 OR s.b = 'own'": {1, 3},
}


def test_conditions_find_defaults() -> None:
    table = table_of(evolved(root()))
    assert rows(table.toArrow()) == ROWS
    for where, expected in CONDITIONS.items():
        assert set(table.toArrow(where=where, columns=["id"])["id"].to_pylist()) == expected, where
    assert rows(table.take([1, 2])) == {n: ROWS[n] for n in (2, 3)}


@pytest.mark.everywhere
def test_conditions_find_defaults_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    builder = evolved(str(tmp_path))
    table = table_of(builder, spark)
    assert rows(table.toDF().toArrow()) == ROWS
    wanted = {**CONDITIONS, "v + 1 = 6": {1, 2, 4}}
    found = [table.scan(where=where, columns=["id"]).select("id", F.lit(where).alias("w")) for where in wanted]
    united = found[0]
    for one in found[1:]:
        united = united.unionAll(one)
    got: dict[str, set[int]] = {where: set() for where in wanted}
    for row in united.collect():
        got[row.w].add(row.id)
    assert got == wanted
    assert {row.id for row in table.toDF().where("v = 5 AND n = 'old'").collect()} == {1, 2}
    assert table.toDF().groupBy("v").count().orderBy("v").collect()[-1].asDict() == {"v": 5, "count": 3}


def changed(table: IcebergTable, source: Any) -> None:
    """Every verb once: what it leaves is in `AFTER`."""
    assert table.delete("v = 5 AND id = 2").metrics["numDeletedRows"] == 1
    assert table.update("n = 'old'", {"v": "v + 1", "s.a": "9"}).metrics["numUpdatedRows"] == 1
    merge = table.alias("t").merge(source, "t.id = s.id")
    merge = merge.whenMatchedUpdate(set={"n": "s.n"}).whenNotMatchedInsert(values={"id": "s.id", "n": "s.n"})
    merge.execute()


AFTER = {
    1: {**ROWS[1], "v": 6, "s": {"a": 9, "b": "inside", "k": 3}},
    3: {**ROWS[3], "n": "merged"},
    4: ROWS[4],
    5: {"s": None, "v": 50, "n": "inserted"},
    6: {"s": {"a": 6, "b": "later", "k": None}, "v": 50, "n": "new"},
    7: {"s": None, "v": None, "n": "new"},
}
MERGED = pa.table({"id": [3, 5], "n": ["merged", "inserted"]})
APPENDED = [
    pa.table({"id": [6], "s": pa.array([{"a": 6}], pa.struct([("a", pa.int32())]))}),
    pa.table({"id": [7], "v": pa.array([None], pa.int32())}),
]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_tables_with_defaults_are_written(tmp_path: Path, mode: str) -> None:
    properties = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    table = registered(tmp_path, evolved(str(tmp_path / "t"), **properties))
    ids = table.toArrow(columns=["id"], metadata=["_row_id"])
    changed(table, MERGED)
    for some in APPENDED:
        table.append(some)
    assert rows(table.toArrow()) == AFTER
    table.optimize()
    table.purge()
    assert rows(table.toArrow()) == AFTER
    before = dict(zip(ids["id"].to_pylist(), ids["_row_id"].to_pylist(), strict=True))
    after = table.toArrow(columns=["id"], metadata=["_row_id"])
    kept = dict(zip(after["id"].to_pylist(), after["_row_id"].to_pylist(), strict=True))
    assert {n: kept[n] for n in (1, 3, 4)} == {n: before[n] for n in (1, 3, 4)}
    assert table.check().clean


def test_indexes_and_changes_see_defaults(tmp_path: Path) -> None:
    table = registered(tmp_path, evolved(str(tmp_path / "t")))
    first = table.handle.newest().version
    for _ in range(2):
        assert set(table.lookup(v=5)["id"].to_pylist()) == {1, 2, 4}
        assert set(table.lookup(v=None)["id"].to_pylist()) == {3}
        assert set(table.lookup(n=["old", "own"], v=5)["id"].to_pylist()) == {1, 2}
        table.createIndex("v") if not table.indexes() else None
    table.createIndex(["n"], name="names")
    assert set(table.lookup(n=["old", "own"], v=5)["id"].to_pylist()) == {1, 2}
    assert table.toArrow(where="v = 5").num_rows == 3
    table.delete("id = 1")
    told = table.changes(first, kind="full-delta").toArrow().to_pylist()
    gone = [row for row in told if row["_change_type"] == "delete"]
    assert [(row["id"], row["v"], row["n"], row["s"]) for row in gone] == [(1, 5, "old", ROWS[1]["s"])]


@pytest.mark.everywhere
def test_tables_with_defaults_are_written_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = registered(tmp_path, evolved(str(tmp_path / "t")), spark)
    changed(table, spark.createDataFrame([(3, "merged"), (5, "inserted")], "id long, n string").alias("s"))
    table.append(spark.sql("SELECT 6L AS id, named_struct('a', 6) AS s"))
    table.append(spark.sql("SELECT 7L AS id, CAST(NULL AS INT) AS v"))
    assert rows(table.toDF().toArrow()) == AFTER
    table.optimize()
    assert rows(table.toDF().toArrow()) == AFTER


def test_statements_know_what_default_means(spark: SparkSession, tmp_path: Path) -> None:
    table = registered(tmp_path, evolved(str(tmp_path / "t")), spark)
    known = TableResolver()
    known.register("ice.t", table)
    for statement in (
        "INSERT INTO ice.t (id, v) VALUES (20, DEFAULT), (21, 1)",
        "UPDATE ice.t SET n = DEFAULT WHERE id = 1",
        "DELETE FROM ice.t WHERE v = 5 AND n = 'old'",
    ):
        assert run(spark, statement, None, None, resolver=known) is not None
    now = rows(table.toDF().select("id", "v", "n").toArrow())
    assert now[1] == {"v": 5, "n": "new"}
    assert 2 not in now
    assert (now[20], now[21]) == ({"v": 50, "n": "new"}, {"v": 1, "n": "new"})


def test_defaults_stay_with_their_table(tmp_path: Path) -> None:
    """Rows come to another table as they are; what the metadata says of defaults outlives every commit."""
    table = registered(tmp_path, evolved(str(tmp_path / "t")))
    delta = DeltaTable.createLike(None, tmp_path / "delta", table)
    table.publish(delta)
    assert rows(delta.toArrow()) == ROWS
    other = IcebergTable.createLike(None, tmp_path / "o.db", "db.o", table)
    table.publish(other)
    assert rows(other.toArrow()) == ROWS
    said = table.handle.newest().metadata.schema_of(None, "t")
    table.addColumns([("more", "int")])
    table.append(pa.table({"id": [9], "more": pa.array([1], pa.int32())}))
    assert table.handle.newest().metadata.schema_of(None, "t")["fields"][:-1] == said["fields"]
    assert rows(table.toArrow(where="id = 9"))[9] == {"s": None, "v": 50, "n": "new", "more": 1}
