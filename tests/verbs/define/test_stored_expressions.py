"""A hostile table runs nothing in the session of whoever writes to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.errors import Unsupported
from holdfast.sql.resolver import TableResolver
from holdfast.sql.run import run
from tests.support.tablesmith import Tablesmith

RUNS = "java_method('java.lang.System', 'setProperty', 'holdfast.ran', 'yes')"
KINDS = ("generated column", "default", "CHECK constraint", "invariant")


def hostile(path: Path, kind: str) -> Tablesmith:
    """A table whose metadata has an expression of one kind that would run code."""
    metadata = {
        "generated column": {"delta.generationExpression": RUNS},
        "default": {"CURRENT_DEFAULT": RUNS},
        "invariant": {"delta.invariants": '{"expression":{"expression":"' + RUNS + ' IS NULL"}}'},
    }.get(kind, {})
    smith = Tablesmith(path, schema=[("id", "long"), ("v", "string")])
    smith.append([{"id": 1, "v": "a"}])
    schema = smith.metadata()["schemaString"]
    wrong = schema.replace('"name":"v","type":"string","nullable":true,"metadata":{}', _field(metadata))
    wrong = wrong.replace('"name": "v", "type": "string", "nullable": true, "metadata": {}', _field(metadata))
    assert wrong != schema or kind == "CHECK constraint"
    properties = {**smith.metadata()["configuration"]}
    if kind == "CHECK constraint":
        properties["delta.constraints.evil"] = f"{RUNS} IS NULL"
    smith.commit([{"metaData": {**smith.metadata(), "schemaString": wrong, "configuration": properties}}])
    return smith


def _field(metadata: dict[str, str]) -> str:
    return f'"name":"v","type":"string","nullable":true,"metadata":{json.dumps(metadata)}'


Verb = Callable[[DeltaTable, Any, Path], object]
VERBS: dict[str, Verb] = {
    "append": lambda table, rows, _: table.append(rows),
    "overwrite": lambda table, rows, _: table.overwrite(rows),
    "update": lambda table, rows, _: table.update("id = 1", {"id": "2"}),
    "update of the column": lambda table, rows, _: table.update("id = 1", {"v": "'b'"}),
    "merge": lambda table, rows, _: table.alias("t").merge(rows, "t.id = s.id").whenNotMatchedInsertAll().execute(),
    "evolve": lambda table, rows, _: table.append(rows, mergeSchema=True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_without_spark_every_verb_refuses_by_name(tmp_path: Path, kind: str) -> None:
    smith = hostile(tmp_path / "t", kind)
    table = DeltaTable.forPath(None, smith.url)
    version = table.version
    rows = pa.table({"id": pa.array([2], pa.int64())})
    for verb in VERBS.values():
        with pytest.raises(Unsupported, match=r"java_method.*calls java_method"):
            verb(table, rows, tmp_path)
    with pytest.raises(Unsupported, match="calls java_method"):
        table.clone(str(tmp_path / "clone"), isShallow=True)
    assert table.version == version
    assert table.toArrow().num_rows == 1


@pytest.mark.everywhere
@pytest.mark.parametrize("kind", KINDS)
def test_on_spark_every_verb_refuses_by_name(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    smith = hostile(tmp_path / "t", kind)
    table = DeltaTable.forPath(spark, smith.url)
    version = table.version
    rows = spark.sql("select 2L as id")
    for verb in VERBS.values():
        with pytest.raises(Unsupported, match=r"java_method.*calls java_method"):
            verb(table, rows, tmp_path)
    assert table.version == version
    ran = spark.sql("select java_method('java.lang.System', 'getProperty', 'holdfast.ran')").head()
    assert ran is not None
    assert ran[0] == "null"


@pytest.mark.parametrize(
    "made",
    [
        lambda b: b.addColumn("v", "string", generatedAlwaysAs=RUNS),
        lambda b: b.addColumn("v", "string", default=RUNS),
        lambda b: b.property("delta.constraints.evil", f"{RUNS} IS NULL"),
        lambda b: b.addColumns(pa.schema([pa.field("v", pa.string(), metadata={"CURRENT_DEFAULT": RUNS})])),
    ],
    ids=["generated", "default", "check", "schema"],
)
def test_no_such_table_is_made(tmp_path: Path, made: Callable[[Any], Any]) -> None:
    with pytest.raises(Unsupported, match="calls java_method"):
        made(DeltaTable.create().location(tmp_path).addColumn("id", "bigint")).execute()
    assert not (tmp_path / "_delta_log").exists()


def test_no_table_becomes_one_and_one_that_is_can_be_mended(tmp_path: Path) -> None:
    table = DeltaTable.create().location(tmp_path / "good").addColumn("id", "bigint").execute()
    with pytest.raises(Unsupported, match=r"CHECK constraint evil .* calls java_method"):
        table.addConstraint("evil", f"{RUNS} IS NULL")
    with pytest.raises(Unsupported, match=r"default of the column id .* calls java_method"):
        table.setColumnDefault("id", RUNS)
    one = pa.table({"id": pa.array([2], pa.int64())})
    checked = DeltaTable.forPath(None, hostile(tmp_path / "check", "CHECK constraint").url)
    checked.dropConstraint("evil")
    checked.append(one)
    defaulted = DeltaTable.forPath(None, hostile(tmp_path / "default", "default").url)
    defaulted.dropColumnDefault("v")
    defaulted.append(one)
    assert checked.toArrow().num_rows == defaulted.toArrow().num_rows == 2


def test_default_in_sql_is_not_spliced_in(spark: SparkSession, tmp_path: Path) -> None:
    smith = hostile(tmp_path / "t", "default")
    for statement in (
        "INSERT INTO delta.`{}` VALUES (2, DEFAULT)",
        "UPDATE delta.`{}` SET v = DEFAULT",
        "MERGE INTO delta.`{0}` t USING (SELECT 5L AS id) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, DEFAULT)",
    ):
        with pytest.raises(Unsupported, match=r"default of the column v .* calls java_method"):
            run(spark, statement.format(tmp_path / "t"), resolver=TableResolver())
    assert DeltaTable.forPath(spark, smith.url).toArrow().num_rows == 1
