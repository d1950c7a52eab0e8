"""The random histories of `tests.support.story` on Iceberg tables; DuckDB reads the table after every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from holdfast import IcebergTable
from tests.formats.iceberg.equality_deletes import commit_equality_delete
from tests.support.iceberg_peers import duckdb_connection
from tests.support.sayings import Row, shown
from tests.support.story import COLUMNS, MODES, Kind, Story


@dataclass(frozen=True)
class IceKind(Kind):
    """What kind of Iceberg table the story is about."""

    format_version: int = 3
    partitioned_by: tuple[str, ...] = ()
    mode: str = "merge-on-read"
    manifests: int = 2  # from which on they are merged


@dataclass
class IceStory(Story):
    """One table of an sqlite catalog; `path` is the directory of the catalog."""

    spark: SparkSession | None = None
    kind: IceKind = field(default_factory=IceKind)

    @property
    def catalog(self) -> str:
        return f"{self.path}/catalog.db"

    def create(self) -> None:
        mode = {f"write.{verb}.mode": self.kind.mode for verb in ("delete", "update", "merge")}
        IcebergTable.create(
            None,
            self.catalog,
            "db.story",
            COLUMNS,
            partitionedBy=self.kind.partitioned_by,
            formatVersion=self.kind.format_version,
            properties={**mode, "commit.manifest.min-count-to-merge": str(self.kind.manifests)},
        )

    @property
    def table(self) -> Any:
        return IcebergTable.load(self.spark, self.catalog, "db.story").alias("t")

    @property
    def modes(self) -> tuple[str | None, ...]:
        return (None, *MODES)

    def version(self) -> int:
        return IcebergTable.load(None, self.catalog, "db.story").handle.newest().metadata.last_sequence_number

    def read(self) -> list[Row]:
        table = IcebergTable.load(None, self.catalog, "db.story")
        names = ["_row_id", "_last_updated_sequence_number"] if self.kind.tracked else []
        found: list[Row] = table.toArrow(metadata=names).to_pylist()
        path = table.handle.newest().metadata_path.removeprefix("file://")
        by_value = table.handle.newest().contents.deletes.equality.num_rows > 0
        # Where rows are deleted by value, DuckDB loses those that have a null there.
        if table.version >= 0 and not (by_value and any(row["k"] is None for row in found)):
            assert self._by_duckdb(path, names) == sorted(map(_told, found))
        report = table.check()
        assert report.clean, report
        if table.version >= 0 and self.kind.format_version == 2 and not by_value:  # which pyiceberg does not read
            io = PyArrowFileIO()
            metadata = FromInputFile.table_metadata(io.new_input(path))
            peer = StaticTable(("db", "story"), metadata, path, io, None)  # type: ignore[arg-type]
            rows = peer.scan().to_arrow().to_pylist()
            assert sorted(shown([row]) for row in rows) == sorted(shown([row]) for row in found)
        return (
            [{"_row_commit_version" if n == names[-1:][0] else n: v for n, v in row.items()} for row in found]
            if names
            else found
        )

    def mark(self) -> int:
        found = IcebergTable.load(None, self.catalog, "db.story").handle.newest().metadata.next_row_id
        assert found is not None
        return found - 1

    def z_order(self, names: Sequence[str], rows: int) -> None:
        self.table.optimize(targetRows=rows).executeZOrderBy(*names)
        self.check([])

    def restore(self, version: int) -> None:
        """Back to a sequence number; a table cannot go back to before its first snapshot."""
        entries = IcebergTable.load(None, self.catalog, "db.story").handle.newest().metadata.snapshots
        for entry in entries:
            if entry.sequence_number == version:
                self.rows = dict(self.versions[version])
                self.table.restoreToVersion(entry.snapshot_id)
                self.check([])

    def commit_equality_delete(self, keys: Sequence[int]) -> None:
        """As another engine does it: rows that have one of these keys so far are gone."""
        self.rows = {row_id: told for row_id, told in self.rows.items() if told[1]["k"] not in keys}
        commit_equality_delete(self.table, pa.table({"k": pa.array(keys, pa.int64())}))
        self.check([])

    def upgrade(self) -> None:
        """From now on rows have ids."""
        assert self.table.upgrade() == 3
        self.kind = IceKind(format_version=3, partitioned_by=self.kind.partitioned_by, mode=self.kind.mode)
        assert sorted(shown([_plain(row)]) for row in self.read()) == sorted(
            shown([row]) for _, row in self.rows.values()
        )
        self.rows = {row.pop("_row_id"): (row.pop("_row_commit_version"), row) for row in self.read()}
        assert None not in self.rows
        self.high_water = self.mark()
        self.versions = {self.version(): dict(self.rows)}  # rows of before have no ids to come back with

    def _by_duckdb(self, path: str, names: list[str]) -> list[str]:
        columns = ", ".join([*COLUMNS.names, *names])
        read: pa.Table = duckdb_connection().execute(f"select {columns} from iceberg_scan('{path}')").to_arrow_table()
        return sorted(map(_told, read.to_pylist()))


def _plain(row: Row) -> Row:
    return {name: value for name, value in row.items() if name in COLUMNS.names}


def _told(row: Row) -> str:
    return repr(sorted(row.items()))
