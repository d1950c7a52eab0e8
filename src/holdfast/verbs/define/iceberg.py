"""What an Iceberg table becomes: its columns, its properties, its format version, and what it was before.

1. Files know columns by their ids, so a column changes its name or goes without any file being touched.
2. A restore is a snapshot of its own: what it takes away can be restored as well, and ids are never given out again.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.errors import Invalid, MissingFile
from holdfast.formats.iceberg.catalog.alter import change_columns
from holdfast.formats.iceberg.catalog.tables import CatalogTable
from holdfast.formats.iceberg.catalog.upgrade import set_properties, upgrade
from holdfast.formats.iceberg.commit.restore import files_to_restore
from holdfast.formats.iceberg.metadata.schema_evolution import renamed
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.model.mutation import AllRows, Mutation
from holdfast.schema.types import DataType, Field, Struct
from holdfast.storage.open import missing
from holdfast.verbs.commit.retry import retried, retry_of
from holdfast.verbs.define.alter import Columns, TypeLike, columns_asked, type_of
from holdfast.verbs.define.columns import changed, path_of, paths_of, split, with_columns, without_columns
from holdfast.verbs.dml.delete_update import Changed, ExecutionContext
from holdfast.verbs.dml.write import land
from holdfast.verbs.open.handle import TableBase
from holdfast.verbs.open.iceberg_handle import IcebergHandle
from holdfast.verbs.open.moment import moment_ms

NEWEST_FORMAT = 3


class IcebergAltering(TableBase):
    """Verbs about what the table is."""

    handle: IcebergHandle

    def addColumns(self, columns: Columns) -> None:
        """Add columns that old rows are null in, as in `addColumns({"note": "string"})`; a dot leads into a struct."""
        asked = columns_asked(columns)
        self._change_columns(lambda schema: with_columns(schema, asked)[0])

    def renameColumn(self, name: str, newName: str) -> None:
        """Give a column another name; of one in a struct, `newName` is the last part alone."""
        parts = split(newName)
        if len(parts) != 1:
            raise Invalid(f"the new name of {name} is one name, not the path {newName}: put it in backticks")
        self._change_column(name, lambda f: renamed(f, parts[0]))

    def dropColumn(self, name: str) -> None:
        """Take a column away; files keep its values, which nobody sees."""
        self._drop_columns([name])

    def changeColumnType(self, name: str, dataType: TypeLike) -> None:
        """Widen the type of a column: int to long, float to double, a decimal to one of more digits."""
        self._redefine_column(name, type_of(name, dataType))

    def commentColumn(self, name: str, comment: str | None) -> None:
        """Say what a column is for; None takes that away."""
        self._change_column(name, lambda f: _commented(f, comment))

    def upgrade(self, formatVersion: int = NEWEST_FORMAT) -> int:
        """Bring the table to a format version, 3 unless told otherwise; gives the version it has.

        From version 3 on rows have ids; those of the table get theirs at once, in a commit that changes nothing else.
        """
        state, source = self._writable()
        self.handle.state = upgrade(source, state, formatVersion, self.handle.env)
        return self.handle.state.metadata.format_version

    def setProperties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table; `format-version` upgrades it."""
        wanted = dict(properties)
        if (version := wanted.pop("format-version", None)) is not None:
            if not version.isdigit():
                raise Invalid(f"format-version is a number, not {version!r}")
            state, source = self._writable()
            self.handle.state = upgrade(source, state, int(version), self.handle.env, wanted)
        else:
            self._change_properties(wanted, ())

    def unsetProperties(self, names: Sequence[str]) -> None:
        """Take properties away."""
        self._change_properties({}, names)

    def restoreToVersion(self, version: int | str) -> Changed:
        """Bring back the rows of an earlier snapshot, or of a branch or tag, each with the id and version it had then.

        Columns stay as they are now.
        """
        return self._restored(version=version)

    def restoreToTimestamp(self, timestamp: str | datetime.datetime) -> Changed:
        """Bring back the rows of the snapshot that was current at a time."""
        return self._restored(timestamp_ms=moment_ms(timestamp, zone=self._caller().zone))

    def _restored(self, **to: Any) -> Changed:
        caller = self._caller()

        def run() -> Changed:
            state = self.handle.newest()
            caller.dialect.check_writable(state)
            return _restore(state, time_travel(state, **to), caller)

        return retried(run, retry_of(None), caller.env)

    def _drop_columns(self, names: Sequence[str]) -> None:
        self._change_columns(lambda schema: without_columns(schema, paths_of(schema, names)))

    def _redefine_column(self, name: str, type_: DataType | None, comment: str | None = None) -> None:
        """Change the type of a column and what it is for: what is None stays."""

        def change(f: Field) -> Field:
            after = f if type_ is None else replace(f, type=type_)
            return after if comment is None else _commented(after, comment)

        self._change_column(name, change)

    def _change_column(self, name: str, change: Callable[[Field], Field | None]) -> None:
        self._change_columns(lambda schema: changed(schema, path_of(schema, name), change))

    def _change_columns(self, change: Callable[[Struct], Struct]) -> None:
        state, source = self._writable()
        self.handle.state = change_columns(source, state, change)

    def _change_properties(self, properties: Mapping[str, str], removed: Sequence[str]) -> None:
        state, source = self._writable()
        if properties or removed:
            self.handle.state = set_properties(source, state, properties, removed)

    def _writable(self) -> tuple[IcebergState, CatalogTable]:
        state = self.handle.newest()
        self.handle.dialect.commits(state.snapshot.location, state)
        assert self.handle.source is not None, "a table without a catalog is refused above"
        return state, self.handle.source


def _commented(f: Field, comment: str | None) -> Field:
    rest = {key: value for key, value in f.metadata.items() if key != "comment"}
    return replace(f, metadata=rest if comment is None else {**rest, "comment": comment})


def _restore(state: IcebergState, then: IcebergState, caller: ExecutionContext) -> Changed:
    """Bring an earlier snapshot back."""
    gone, back, paths = files_to_restore(state, then)
    metrics = {"numRemovedFiles": gone, "numRestoredFiles": back}
    if then.version == state.version:
        return Changed(None, metrics, before=state, dialect=caller.dialect)
    location = state.snapshot.location
    lost = list(missing(location, state.paths.keys(paths).to_pylist()))  # one look per file that comes back
    if lost:
        raise MissingFile(
            f"snapshot {then.version} of {location.url} cannot be restored: {len(lost)} of its files are gone, such as "
            f"{lost[0]}",
            path=lost[0],
        )
    mutation = Mutation(
        "RESTORE",
        {"version": json.dumps(then.version)},
        metrics,
        removed=state.snapshot.files.table,
        reads=AllRows(),
        back_to=then.version,
    )
    landed = land(state, location, mutation, caller.env, dialect=caller.dialect)
    return Changed(landed.version, metrics, landed.attempts, before=state, dialect=caller.dialect)
