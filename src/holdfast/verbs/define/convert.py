"""Converts a directory of Parquet files to a Delta table: inspects the files, then commits them.

1. A directory that is a Delta table already stays as it is.
2. Only the commit is written: either the table has all its files, or nothing has changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from holdfast.env import Env
from holdfast.errors import Invalid, Unsupported
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.state import DeltaState
from holdfast.model.definition import created
from holdfast.model.mutation import TableDefinition
from holdfast.model.write_spec import write_spec
from holdfast.schema.ddl import parse_type
from holdfast.schema.properties import COLUMN_MAPPING_MODE
from holdfast.schema.requests import requested
from holdfast.schema.types import Struct
from holdfast.storage.location import Location
from holdfast.verbs.commit.loop import commit
from holdfast.verbs.define.convert_files import converted, staged, survey
from holdfast.verbs.open.spark_values import spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BY_PATH = re.compile(r"(\w+)\.`(.+)`", re.DOTALL)


def path_of(identifier: str) -> str:
    """The directory that "parquet.`/path`" names."""
    by_path = _BY_PATH.fullmatch(identifier.strip())
    if by_path is None:
        raise Invalid(f"{identifier!r} names no Parquet directory: spell it parquet.`/path/to/directory`")
    if by_path[1].lower() != "parquet":
        raise Unsupported(f"Holdfast converts directories of Parquet files, not of {by_path[1]}")
    return by_path[2]


def partitions_of(schema: str | StructType | None) -> Struct:
    """The partition columns a user names, as a DDL text or a Spark struct."""
    if schema is None:
        return Struct()
    if not isinstance(schema, str) and (struct := spark_schema(schema, "partitionSchema")) is not None:
        return struct
    parsed = parse_type(f"struct<{schema}>")
    assert isinstance(parsed, Struct), "what begins with struct< is one"
    return parsed


def convert(
    location: Location, partitions: Struct, properties: Mapping[str, str], env: Env, *, plain: bool
) -> DeltaState:
    """Make a table of a directory of Parquet files."""
    format_ = DeltaFormat(location)
    existing = format_.newest(None)
    if existing is not None:
        return existing
    request = requested(properties)
    if request.properties.get(COLUMN_MAPPING_MODE, "none").lower() != "none":
        raise Invalid("files that are there name their columns themselves: convert first, then map columns")
    directory = survey(location, partitions)
    shape = created(
        TableDefinition(directory.schema, directory.partition_columns, request.properties, features=request.features),
        env.new_uuid,
        plain=plain,
    )
    files = staged(directory, write_spec(shape.schema, shape.partition_columns, shape.properties))
    commit(DeltaFormat(location), None, converted(directory, files, shape), env)
    state = format_.newest(None)
    assert state is not None, "the table was just made"
    return state
