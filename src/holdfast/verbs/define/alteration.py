"""Changes of a table's columns and properties that both formats have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from holdfast.errors import Invalid
from holdfast.schema.ddl import parse_type
from holdfast.schema.types import DataType
from holdfast.verbs.dml.write import Written
from holdfast.verbs.open.spark_values import spark_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType as SparkType

TypeLike: TypeAlias = "str | SparkType"
Columns: TypeAlias = "Mapping[str, TypeLike] | Sequence[tuple[str, TypeLike] | tuple[str, TypeLike, str | None]]"


class Alteration(Protocol):
    """The changes, each of which is one commit, or none where it is true already."""

    def set_properties(self, properties: Mapping[str, str]) -> Written:
        """Set properties."""

    def unset_properties(self, names: Sequence[str], *, if_exists: bool) -> Written:
        """Remove properties; one that the table does not have is refused unless `if_exists`."""

    def add_columns(self, columns: Columns) -> Written:
        """Add columns that old rows are null in."""

    def rename_column(self, name: str, new_name: str) -> Written:
        """Give a column another name."""

    def drop_columns(self, names: Sequence[str]) -> Written:
        """Remove columns."""

    def comment_column(self, name: str, comment: str | None) -> Written:
        """Set or remove a column's comment."""

    def redefine_column(self, name: str, *, type_: TypeLike | None = None, comment: str | None = None) -> Written:
        """Widen the type of a column and set its comment; what is None stays."""


def new_columns(columns: Columns) -> list[tuple[str, DataType, str | None]]:
    """The names, types and comments of new columns."""
    rows: list[Any] = list(columns.items()) if isinstance(columns, Mapping) else list(columns)
    return [_column(row) for row in rows]


def _column(row: object) -> tuple[str, DataType, str | None]:
    match row:
        case (str(name), type_):
            return name, type_of(name, type_), None
        case (str(name), type_, None | str() as comment):
            return name, type_of(name, type_), comment
        case _:
            raise Invalid(f"a new column is (name, type) or (name, type, comment), not {row!r}")


def type_of(name: str, type_: object) -> DataType:
    """A type that is given as SQL text or as a Spark type."""
    if isinstance(type_, str):
        return parse_type(type_)
    if (parsed := spark_type(name, type_)) is not None:
        return parsed
    raise Invalid(f"the type of {name} is SQL text or a Spark type, not {type(type_).__name__}")
