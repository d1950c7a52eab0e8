"""What a publication asks of an Iceberg table: as the table that rows come from, and as the one that they go to.

1. Versions of an Iceberg table are told by sequence numbers, which is what its rows say; `upto` is a snapshot id.
2. Only format version 3 has row ids, so only such a table is published, or published into.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from pyspark.sql import SparkSession

from holdfast.errors import Invalid
from holdfast.formats.iceberg.commit.published import changed_since, first_after, published_into
from holdfast.formats.iceberg.history.commit_range import read_commit_range
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.model.commits import CommitRange
from holdfast.model.publication import Publication
from holdfast.plan.publish.columns import plain
from holdfast.verbs.changefeed.iceberg import refuse_imported
from holdfast.verbs.define.iceberg_writing import IcebergWriting
from holdfast.verbs.dml.verbs import RowVerbs
from holdfast.verbs.publish.mutation import Origin
from holdfast.verbs.publish.publish import PublishVerbs


class IcebergPublishing(IcebergWriting, PublishVerbs):
    """An Iceberg table that is published, or published into."""

    @classmethod
    @abstractmethod
    def create(cls, sparkSession: SparkSession | None, catalog: Any, identifier: Any, schema: Any) -> Any: ...

    @classmethod
    def createLike(
        cls,
        sparkSession: SparkSession | None,
        catalog: Any,
        identifier: str | tuple[str, ...],
        table: RowVerbs,
        *,
        partitionedBy: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        location: str | PathLike[str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Any:
        """Make a table with the columns of another one, of any format; `table.publish(...)` brings the rows.

        What else is said is said as to `create`.
        """
        schema = plain(table.handle.newest().snapshot.schema)
        given: dict[str, Any] = {
            "partitionedBy": partitionedBy,
            "properties": properties,
            "location": location,
            "storage_options": storage_options,
        }
        return cls.create(sparkSession, catalog, identifier, schema, **given)

    def _origin(self, upto: int | None) -> Origin:
        found = self.handle.at(upto, None)
        if found.entry is None:
            raise Invalid(f"{found.metadata.location} has no snapshot, so there are no rows to publish")
        last = found.entry
        # Columns as the snapshot has them: what was done to columns since comes with the next.
        state = time_travel(found, version=last.snapshot_id)

        def since(sequence: int) -> CommitRange:
            refuse_imported(state)
            return read_commit_range(state, first_after(state, sequence), last.snapshot_id)

        dialect = self.handle.dialect
        return Origin(state.table_id, last.sequence_number, state.snapshot, dialect.load_hidden, since)

    def _published(self, state: IcebergState) -> Publication | None:
        return published_into(state)

    def _changed_since(self, state: IcebergState, publication: Publication) -> tuple[int, str] | None:
        return changed_since(state)
