"""Conversion of a Parquet directory, put together: look at the files, then one commit.

1. A directory that is a Delta table already stays as it is.
2. Either the table is there with all its files, or nothing has changed: only the commit is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql.types import StructType

from holdfast.engines.spark.types import spark_to_struct
from holdfast.env import Env
from holdfast.errors import Invalid, Unsupported
from holdfast.formats.delta.commit.loop import DeltaFormat
from holdfast.formats.delta.state import DeltaState
from holdfast.model.mutation import TableDefinition
from holdfast.plan.dml.write import write_spec
from holdfast.schema.ddl import parse_type
from holdfast.schema.properties import COLUMN_MAPPING_MODE
from holdfast.schema.requests import requested
from holdfast.schema.types import Struct
from holdfast.storage.location import Location
from holdfast.verbs.define.convert_files import converted, staged, survey
from holdfast.verbs.define.shape import created
from holdfast.verbs.dml.write import land
from holdfast.verbs.open.delta_dialect import DELTA

_BY_PATH = re.compile(r"(\w+)\.`(.+)`", re.DOTALL)


def path_of(identifier: str) -> str:
    """The directory that "parquet.`/path`" names."""
    found = _BY_PATH.fullmatch(identifier.strip())
    if found is None:
        raise Invalid(f"{identifier!r} names no Parquet directory: spell it parquet.`/path/to/directory`")
    if found[1].lower() != "parquet":
        raise Unsupported(f"Holdfast converts directories of Parquet files, not of {found[1]}")
    return found[2]


def partitions_of(schema: str | StructType | None) -> Struct:
    """The partition columns a user names, as a DDL text or a Spark struct."""
    if schema is None:
        return Struct()
    if isinstance(schema, StructType):
        return spark_to_struct(schema, where="partitionSchema")
    parsed = parse_type(f"struct<{schema}>")
    assert isinstance(parsed, Struct), "what begins with struct< is one"
    return parsed


def convert(
    location: Location, partitions: Struct, properties: Mapping[str, str], env: Env, *, plain: bool
) -> DeltaState:
    """Make a table of a directory of Parquet files."""
    format_ = DeltaFormat(location)
    there = format_.newest(None)
    if there is not None:
        return there
    asked = requested(properties)
    if asked.properties.get(COLUMN_MAPPING_MODE, "none").lower() != "none":
        raise Invalid("files that are there name their columns themselves: convert first, then map columns")
    found = survey(location, partitions)
    shape = created(
        TableDefinition(found.schema, found.partition_columns, asked.properties, features=asked.features),
        env.new_uuid,
        plain=plain,
    )
    files = staged(found, write_spec(shape.schema, shape.partition_columns, shape.properties))
    land(None, location, converted(found, files, shape), env, dialect=DELTA)
    made = format_.newest(None)
    assert made is not None, "the table was just made"
    return made
