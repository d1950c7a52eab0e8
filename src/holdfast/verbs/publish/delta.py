"""A Delta table that is published, and one that is made for a publication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath

from holdfast.env import system
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.history.commit_range import read_range
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.commits import CommitRange
from holdfast.model.mutation import TableDefinition
from holdfast.plan.publish.columns import plain, refuse_types
from holdfast.schema.properties import COLUMN_MAPPING_MODE
from holdfast.schema.requests import requested
from holdfast.schema.storable import refuse_partition_columns, refuse_unstorable
from holdfast.schema.types import PRIMITIVES, Struct
from holdfast.storage.open import open_location
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from holdfast.verbs.publish.mutation import Origin


def create_like(
    path: str | PathLike[str],
    columns: Struct,
    partitioned_by: Sequence[str],
    properties: Mapping[str, str],
    storage_options: Mapping[str, str] | None,
) -> None:
    """Make a table with the columns of another one."""
    schema, request = plain(columns), requested(properties)
    refuse_types(schema, PRIMITIVES, target="a Delta table")
    refuse_unstorable(schema, mapped=request.properties.get(COLUMN_MAPPING_MODE, "none") != "none")
    names = (partitioned_by,) if isinstance(partitioned_by, str) else tuple(partitioned_by)
    partitions = refuse_partition_columns(schema, names)
    definition = TableDefinition(schema, partitions, request.properties, features=request.features)
    location = open_location(fspath(path), storage_options=storage_options)
    make(location, definition, system(), mode=CreateMode.CREATE, plain=False)


def origin_of(state: DeltaState) -> Origin:
    """A version of a table as it is published."""

    def since(version: int) -> CommitRange:
        return read_range(load(state.snapshot.location, version=version), state, start=version + 1)

    return Origin(state.table_id, state.version, state.snapshot, load_hidden, since)
