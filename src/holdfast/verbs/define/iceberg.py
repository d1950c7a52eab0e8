"""Changes the columns, properties and format version of an Iceberg table.

1. Files know columns by their ids, so a column changes its name or goes without any file being touched.
2. No change of these makes a snapshot, apart from an upgrade: the version of the result is the current snapshot's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.env import Env
from holdfast.errors import Invalid
from holdfast.formats.iceberg.catalog.alter import change_columns, set_properties, upgrade
from holdfast.formats.iceberg.catalog.tables import CatalogTable
from holdfast.formats.iceberg.metadata.schema_evolution import renamed
from holdfast.formats.iceberg.state import IcebergState
from holdfast.schema.types import Field, Struct
from holdfast.verbs.define.alteration import Columns, TypeLike, new_columns, type_of
from holdfast.verbs.define.columns import changed, path_of, paths_of, split, with_columns, without_columns
from holdfast.verbs.dml.write import Written

NEWEST_FORMAT = 3


@dataclass(frozen=True)
class IcebergAlteration:
    """Changes of an Iceberg table's columns and properties."""

    source: CatalogTable
    state: IcebergState
    env: Env
    keep: Callable[[IcebergState], None]  # told of the table as it is afterwards

    def set_properties(self, properties: Mapping[str, str]) -> Written:
        """Set properties; `format-version` upgrades the table in the same commit."""
        rest = dict(properties)
        version = rest.pop("format-version", None)
        if version is None:
            return self.change_properties(rest)
        if not version.isdigit():
            raise Invalid(f"format-version is a number, not {version!r}")
        return self.upgrade(int(version), rest)

    def upgrade(self, version: int, properties: Mapping[str, str] | None = None) -> Written:
        """Bring the table to a format version, and set properties in the same commit."""
        return self._written(upgrade(self.source, self.state, version, self.env, properties))

    def unset_properties(self, names: Sequence[str], *, if_exists: bool) -> Written:
        """Remove properties; one that the table does not have is refused unless `if_exists`."""
        names, properties = [names] if isinstance(names, str) else list(names), self.state.metadata.properties
        unknown = [name for name in names if name not in properties]
        if unknown and not if_exists:
            raise Invalid(f"the table has no property {unknown[0]} to unset: leave it out, or say ifExists=True")
        return self.change_properties({}, [name for name in names if name in properties])

    def add_columns(self, columns: Columns) -> Written:
        """Add columns that old rows are null in."""
        new = new_columns(columns)
        return self._change_columns(lambda schema: with_columns(schema, new)[0])

    def rename_column(self, name: str, new_name: str) -> Written:
        """Give a column another name; of one in a struct, `new_name` is the last part alone."""
        parts = split(new_name)
        if len(parts) != 1:
            raise Invalid(f"the new name of {name} is one name, not the path {new_name}: put it in backticks")
        return self._change_column(name, lambda f: renamed(f, parts[0]))

    def drop_columns(self, names: Sequence[str]) -> Written:
        """Remove columns; files keep their values, which nobody sees."""
        return self._change_columns(lambda schema: without_columns(schema, paths_of(schema, names)))

    def comment_column(self, name: str, comment: str | None) -> Written:
        """Set or remove a column's comment."""
        return self._change_column(name, lambda f: _commented(f, comment))

    def redefine_column(self, name: str, *, type_: TypeLike | None = None, comment: str | None = None) -> Written:
        """Widen the type of a column and set its comment; what is None stays."""
        new = None if type_ is None else type_of(name, type_)

        def change(f: Field) -> Field:
            after = f if new is None else replace(f, type=new)
            return after if comment is None else _commented(after, comment)

        return self._change_column(name, change)

    def change_properties(self, properties: Mapping[str, str], removed: Sequence[str] = ()) -> Written:
        """Set and remove properties as they are given."""
        if not properties and not removed:
            return Written(None, {}, 0)
        return self._written(set_properties(self.source, self.state, properties, removed))

    def _change_column(self, name: str, change: Callable[[Field], Field | None]) -> Written:
        return self._change_columns(lambda schema: changed(schema, path_of(schema, name), change))

    def _change_columns(self, change: Callable[[Struct], Struct]) -> Written:
        return self._written(change_columns(self.source, self.state, change))

    def _written(self, state: IcebergState) -> Written:
        self.keep(state)
        if state is self.state:
            return Written(None, {}, 0)
        return Written(state.version, {}, 1)


def _commented(f: Field, comment: str | None) -> Field:
    rest = {key: value for key, value in f.metadata.items() if key != "comment"}
    return replace(f, metadata=rest if comment is None else {**rest, "comment": comment})
