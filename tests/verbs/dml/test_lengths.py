"""Strings with a limit on their length."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from holdfast import DeltaTable
from holdfast.errors import ConstraintViolated, TableError

AS_TEXT = "VARCHAR( 3 )"
AS_TYPE = spark_types.VarcharType(3)


@pytest.mark.everywhere
def test_both_engines_hold_the_limit(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaTable.create(spark).location(tmp_path).addColumn("s", AS_TEXT).execute()
    table.append(spark.sql("select * from values ('äöü'), (null), ('') as t(s)"))
    table.append(pa.table({"s": ["äöü", None, ""]}))
    for rows in (spark.sql("select 'long' as s"), pa.table({"s": ["a", "long"]})):
        with pytest.raises(ConstraintViolated, match=r"length limit s .*broken by the row s=long"):
            table.append(rows)
    assert table.toArrow().num_rows == 6


def test_the_ways_to_say_it_agree(tmp_path: Path) -> None:
    struct = spark_types.StructType([spark_types.StructField("s", AS_TYPE, True, {"comment": "c"})])
    tables = [
        DeltaTable.create().location(tmp_path / "a").addColumn("s", AS_TEXT, comment="c").execute(),
        DeltaTable.create().location(tmp_path / "b").addColumn("s", AS_TYPE, comment="c").execute(),
        DeltaTable.create().location(tmp_path / "c").addColumns(struct).execute(),
    ]
    fields = [table.handle.newest().snapshot.schema.fields[0] for table in tables]
    assert fields[0] == fields[1] == fields[2]
    assert fields[0].metadata == {"comment": "c", "__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}


@pytest.mark.parametrize("type_", ["char(3)", "array<varchar(3)>", "varchar", spark_types.CharType(3)])
def test_other_limits_are_refused(tmp_path: Path, type_: str | spark_types.DataType) -> None:
    with pytest.raises(TableError, match=r"char"):
        DeltaTable.create().location(tmp_path).addColumn("s", type_)
