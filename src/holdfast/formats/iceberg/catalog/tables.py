"""Tables of a catalog: pyiceberg finds the metadata file, Holdfast reads it.

1. A catalog gives only the path of a table's newest metadata file; every file is read through our own store.
2. The catalog's storage settings (keys, regions, endpoints) open the table's store, unless the user gives options.
3. Metadata is not read again while the pointer has not moved.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError, RESTError, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from holdfast.errors import Damaged, Invalid, NotATable, Unavailable
from holdfast.formats.iceberg.catalog.pointer import has_pointer, pointer
from holdfast.formats.iceberg.catalog.store_io import OPTIONS, through_stores
from holdfast.formats.iceberg.state import IcebergState, load, reload

CatalogLike: TypeAlias = Catalog | str | os.PathLike[str] | Mapping[str, str]


@dataclass(frozen=True)
class CatalogTable:
    """A table by its name in a catalog."""

    catalog: Catalog
    identifier: str | tuple[str, ...]
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    allow_outside: bool | str | Sequence[str] = False

    def newest(self, state: IcebergState | None) -> IcebergState:
        """The newest state of the table; the same object where nothing was committed since."""
        place, properties = self._metadata_location()
        if state is not None:
            return state if place == state.metadata_path else reload(state, place)
        options = self.storage_options
        if options is None:
            options = {ours: properties[theirs] for theirs, ours in OPTIONS.items() if theirs in properties}
        return load(place, storage_options=options or None, allow_outside=self.allow_outside)

    def _metadata_location(self) -> tuple[str, Mapping[str, str]]:
        """The path of the newest metadata file, and the catalog's storage settings."""
        if has_pointer(self.catalog):
            return self.place(self.catalog), self.catalog.properties
        try:
            table = self.catalog.load_table(self.identifier)
        except NoSuchTableError as error:
            raise self._missing() from error
        except (RESTError, OSError, SQLAlchemyError) as error:
            raise Unavailable(f"the catalog {self.catalog.name} did not answer: {error}") from error
        except (ValidationError, ValueError) as error:  # pyiceberg checks the whole metadata file
            raise Damaged(
                f"the catalog {self.catalog.name} gives metadata of {self._name} that pyiceberg refuses: {error}",
                path=self._name,
                expected="metadata of an Iceberg table",
                found=str(error).splitlines()[0],
            ) from error
        return table.metadata_location, table.io.properties

    def place(self, catalog: SqlCatalog) -> str:
        """The path of the newest metadata file in an SQL catalog."""
        try:
            place = pointer(catalog, self.identifier)
        except SQLAlchemyError as error:
            raise Unavailable(f"the catalog {catalog.name} did not answer: {error}") from error
        if place is None:
            raise self._missing()
        return place

    def _missing(self) -> NotATable:
        return NotATable(f"the catalog {self.catalog.name} has no table {self._name}", location=self._name)

    @property
    def _name(self) -> str:
        return self.identifier if isinstance(self.identifier, str) else ".".join(self.identifier)


def catalog_table(
    catalog: CatalogLike,
    identifier: str | tuple[str, ...],
    *,
    storage_options: Mapping[str, str] | None = None,
    allow_outside: bool | str | Sequence[str] = False,
) -> CatalogTable:
    """A table of a catalog."""
    return CatalogTable(
        through_stores(_open_catalog(catalog), storage_options), identifier, storage_options, allow_outside
    )


def _open_catalog(catalog: CatalogLike) -> Catalog:
    """Opens a catalog: a pyiceberg object, a name from its configuration, properties, or the path of an SQLite file."""
    match catalog:
        case Catalog():
            return catalog
        case Mapping():
            properties = {str(k): str(v) for k, v in catalog.items()}
            return load_catalog(properties.pop("name", "holdfast"), **properties)
        case os.PathLike():
            return _sqlite(os.fspath(catalog))
        case str() if catalog.endswith((".db", ".sqlite")):
            return _sqlite(catalog)
        case str():
            return load_catalog(catalog)
        case _:
            raise Invalid(
                "a catalog is one of pyiceberg's, a name from its configuration, its properties, or the path of an "
                f"sqlite file, not {type(catalog).__name__}"
            )


def _sqlite(path: str) -> Catalog:
    """An embedded catalog: one SQLite file, with the tables in its directory."""
    place = os.path.abspath(path)
    return load_catalog("holdfast", type="sql", uri=f"sqlite:///{place}", warehouse=f"file://{os.path.dirname(place)}")
