"""What a publication asks of a Delta table: as the table that rows come from, and as the one that they go to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from pyspark.sql import SparkSession

from holdfast.env import system
from holdfast.formats.delta.commit.published import changed_since, published_into
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.history.commit_range import read_range
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.commits import CommitRange
from holdfast.model.mutation import TableDefinition
from holdfast.model.publication import Publication
from holdfast.plan.publish.columns import plain, refuse_types
from holdfast.schema.properties import COLUMN_MAPPING_MODE
from holdfast.schema.requests import requested
from holdfast.schema.storable import refuse_partition_columns, refuse_unstorable
from holdfast.schema.types import PRIMITIVES, Struct
from holdfast.storage.open import open_location
from holdfast.verbs.changefeed.delta import ChangeVerbs
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.verbs import RowVerbs
from holdfast.verbs.dml.write import make
from holdfast.verbs.publish.mutation import Origin
from holdfast.verbs.publish.publish import PublishVerbs


class DeltaPublishing(ChangeVerbs, PublishVerbs):
    """A Delta table that is published, or published into."""

    @classmethod
    @abstractmethod
    def forPath(
        cls,
        sparkSession: SparkSession | None,
        path: str | PathLike[str],
        hadoopConf: Mapping[str, str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> Any: ...

    @classmethod
    def createLike(
        cls,
        sparkSession: SparkSession | None,
        path: str | PathLike[str],
        table: RowVerbs,
        *,
        partitionedBy: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Any:
        """Make a table with the columns of another one, of any format; `table.publish(...)` brings the rows."""
        schema, asked = plain(table.handle.newest().snapshot.schema), requested(properties or {})
        refuse_types(schema, PRIMITIVES, target="a Delta table")
        refuse_unstorable(schema, mapped=asked.properties.get(COLUMN_MAPPING_MODE, "none") != "none")
        named = (partitionedBy,) if isinstance(partitionedBy, str) else tuple(partitionedBy)
        by = refuse_partition_columns(schema, named)
        shape = TableDefinition(schema, by, asked.properties, features=asked.features)
        location = open_location(fspath(path), storage_options=storage_options)
        make(location, shape, system(), mode=CreateMode.CREATE, plain=False)
        return cls.forPath(sparkSession, path, storage_options=storage_options)

    def _origin(self, upto: int | None) -> Origin:
        state = self.handle.at(upto, None)

        def since(version: int) -> CommitRange:
            return read_range(load(state.snapshot.location, version=version), state, start=version + 1)

        return Origin(state.table_id, state.version, state.snapshot, load_hidden, since)

    def _refuse_types(self, schema: Struct) -> None:
        refuse_types(schema, PRIMITIVES, target=self.handle.newest().snapshot.location.url)

    def _published(self, state: DeltaState) -> Publication | None:
        return published_into(state)

    def _changed_since(self, state: DeltaState, publication: Publication) -> tuple[int, str] | None:
        return changed_since(state, publication)
