"""Partition specs that give different fields one name, as Trino does: fields are known by their ids."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from holdfast import IcebergTable
from holdfast.formats.iceberg.metadata.partition_spec import (
    PartitionField,
    PartitionSpec,
    parse_transform,
    unified_fields,
)
from tests.formats.iceberg.smith import Smith, column, identity
from tests.support.gateway import address, io_settings

NAMES = count()
COLUMNS = [column(1, "id"), column(2, "a", "string")]
SPECS = [
    [identity(2, "a_trunc", transform="truncate[1]")],
    [identity(2, "a_trunc", 1001, transform="truncate[3]"), identity(1, "p", 1002, transform="bucket[2]")],
]
WORDS = {1: "apple", 2: "avocado", 3: "banana", 4: "berry", 5: "apricot", 6: "bandana"}


def registered(place: Path, builder: Smith, spark: SparkSession | None = None) -> IcebergTable:
    """A table in a catalog, so that it can be written."""
    name = f"names{next(NAMES)}"
    catalog = load_catalog(name, type="sql", uri=f"sqlite:///{place}/c.db", warehouse=address(place), **io_settings())
    catalog.create_namespace("db")
    catalog.register_table("db.t", builder.metadata())
    return IcebergTable.load(spark, catalog, "db.t")


def evolved(root: Path, version: int = 3) -> Smith:
    builder = Smith(address(root), COLUMNS, specs=SPECS, version=version)
    builder.commit(
        [builder.data(rows(1, 2), partition={"a_trunc": "a"}), builder.data(rows(3, 4), partition={"a_trunc": "b"})]
    )
    files = [
        builder.data(rows(5), partition={"a_trunc": "apr", "p": 1}, spec=1),
        builder.data(rows(6), partition={"a_trunc": "ban", "p": 0}, spec=1),
    ]
    builder.commit([one | {"lower_bounds": None, "upper_bounds": None} for one in files])
    return builder


def rows(*ids: int) -> dict[str, Any]:
    return {"id": list(ids), "a": [WORDS[n] for n in ids]}


def by_id(arrow: pa.Table, name: str = "_partition") -> dict[int, Any]:
    return dict(zip(arrow["id"].to_pylist(), arrow[name].to_pylist(), strict=True))


PLACES = {
    1: {"a_trunc_1000": "a", "a_trunc": None, "p": None},
    2: {"a_trunc_1000": "a", "a_trunc": None, "p": None},
    3: {"a_trunc_1000": "b", "a_trunc": None, "p": None},
    4: {"a_trunc_1000": "b", "a_trunc": None, "p": None},
    5: {"a_trunc_1000": None, "a_trunc": "apr", "p": 1},
    6: {"a_trunc_1000": None, "a_trunc": "ban", "p": 0},
}


def test_the_newest_field_keeps_the_name() -> None:
    def spec(number: int, *fields: tuple[int, str, str]) -> PartitionSpec:
        return PartitionSpec(number, tuple(PartitionField(2, i, name, parse_transform(t)) for i, name, t in fields))

    def named(*specs: PartitionSpec) -> list[tuple[int, str]]:
        union = unified_fields({one.spec_id: one for one in specs}, {2: "string"}, where="t")
        return [(f.field_id, f.name) for f in union]

    one = spec(0, (1000, "x", "truncate[1]"))
    assert named(one, spec(1, (1001, "x", "truncate[2]"))) == [(1000, "x_1000"), (1001, "x")]
    assert named(one, spec(1, (1001, "x", "truncate[2]")), spec(2, (1002, "x", "identity"))) == [
        (1000, "x_1000"),
        (1001, "x_1001"),
        (1002, "x"),
    ]
    assert named(one, spec(1, (1000, "x_1000", "void"), (1001, "x", "identity"))) == [(1000, "x_1000"), (1001, "x")]
    taken = spec(1, (1001, "x", "truncate[2]"), (1002, "x_1000", "identity"))
    assert named(one, taken) == [(1000, "x_1000_1000"), (1001, "x"), (1002, "x_1000")]


def test_conditions_read_the_rows_and_leave_files_out(tmp_path: Path) -> None:
    table = registered(tmp_path, evolved(tmp_path / "t"))
    assert by_id(table.toArrow(metadata=["_partition"])) == PLACES
    for where, expected in {
        "a = 'banana'": {3},
        "a >= 'b'": {3, 4, 6},
        "a < 'ap'": set(),
        "a LIKE 'ap%'": {1, 5},
        "_partition.a_trunc = 'apr'": {5},
        "_partition.A_TRUNC_1000 = 'b'": {3, 4},
        "_partition.a_trunc IS NULL": {1, 2, 3, 4},
        "id = 5": {5},
    }.items():
        asked = {"metadata": ["_partition"]} if "_partition" in where else {}
        assert set(table.toArrow(where=where, **asked)["id"].to_pylist()) == expected, where
    assert table.explain(where="a >= 'b'").files_read == 3, "what begins with apr is left out, a alone may be more"
    assert table.explain(where="a < 'ap'").files_read == 1


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_change_under_both_specs(tmp_path: Path, mode: str) -> None:
    builder = evolved(tmp_path / "t")
    builder.properties |= {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    table = registered(tmp_path, builder)
    ids = by_id(table.toArrow(metadata=["_row_id"]), "_row_id")
    table.delete("a = 'berry'")
    table.update("a >= 'ba'", {"a": "concat(a, 's')"})
    table.append(pa.table({"id": [7], "a": ["cherry"]}))
    merge = table.alias("t").merge(pa.table({"id": [1, 8], "a": ["alder", "date"]}), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    expected = {1: "alder", 2: "avocado", 3: "bananas", 5: "apricot", 6: "bandanas", 7: "cherry", 8: "date"}
    assert by_id(table.toArrow(), "a") == expected
    assert by_id(table.toArrow(where="id < 7", metadata=["_row_id"]), "_row_id") == {
        n: i for n, i in ids.items() if n != 4
    }
    table.optimize()
    result = table.toArrow(metadata=["_partition"])
    assert by_id(result, "a") == expected
    places = by_id(result)
    assert (places[7]["a_trunc"], places[7]["a_trunc_1000"]) == ("che", None)
    assert table.check().clean


@pytest.mark.everywhere
def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = registered(tmp_path, evolved(tmp_path / "t"), spark)
    assert by_id(table.scan(metadata=["_partition"]).toArrow()) == PLACES
    found = table.scan(where="_partition.a_trunc = 'apr' OR _partition.a_trunc_1000 = 'b'", metadata=["_partition"])
    assert sorted(row.id for row in found.collect()) == [3, 4, 5]
    table.delete("a = 'berry'")
    table.update("a >= 'ba'", {"a": "concat(a, 's')"})
    assert {row.id: row.a for row in table.toDF().where("a > 'av'").collect()} == {
        2: "avocado",
        3: "bananas",
        6: "bandanas",
    }


def test_a_column_that_files_lack_is_what_the_spec_of_the_file_says() -> None:
    """The specs of Hive's files name the value, each by a field of its own; null there is null, and no default."""
    columns = [column(1, "id"), column(2, "a", "string", **{"initial-default": "old"})]
    specs = [[identity(2, "a")], [identity(1, "p", 1001)], [identity(2, "a", 1002)]]
    builder = Smith(f"memory://names-{next(NAMES)}/t", columns, specs=specs, version=3)
    builder.commit(
        [
            builder.data({"id": [1]}, partition={"a": "x"}),
            builder.data({"id": [2]}, partition={"p": 2}, spec=1),
            builder.data({"id": [3]}, partition={"a": "z"}, spec=2),
            builder.data({"id": [4]}, partition={"a": None}, spec=2),
        ]
    )
    table = IcebergTable.forMetadata(None, builder.metadata())
    assert by_id(table.toArrow(), "a") == {1: "x", 2: "old", 3: "z", 4: None}
    for where, expected in {"a = 'old'": [2], "a IS NULL": [4], "a > 'p'": [1, 3], "a IN ('x', 'old')": [1, 2]}.items():
        assert table.toArrow(where=where)["id"].to_pylist() == expected, where
