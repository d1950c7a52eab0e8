"""Tables of a catalog: pyiceberg finds them, Holdfast reads them.

1. A catalog is asked for one thing, where a table's newest metadata file is; every file is read through our own store.
2. What a catalog says of its storage (keys, regions, endpoints) opens the table's store, unless options are given.
3. Metadata that did not move is not read again.
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
        """The table as the catalog has it now; the same state where nothing was committed since."""
        place, properties = self._found()
        if state is not None:
            return state if place == state.metadata_path else reload(state, place)
        options = self.storage_options
        if options is None:
            options = {ours: properties[theirs] for theirs, ours in OPTIONS.items() if theirs in properties}
        return load(place, storage_options=options or None, allow_outside=self.allow_outside)

    def _found(self) -> tuple[str, Mapping[str, str]]:
        """Where the newest metadata file is, and what the catalog says of its storage."""
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
        """Where the newest metadata file is, as the catalog says."""
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
    """A table of a catalog, however the catalog is given."""
    return CatalogTable(through_stores(opened(catalog), storage_options), identifier, storage_options, allow_outside)


def opened(catalog: CatalogLike) -> Catalog:
    """A catalog: one of pyiceberg's, a name it knows, its properties, or the path of an sqlite file."""
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
    """The embedded catalog: one file, with the tables beside it."""
    place = os.path.abspath(path)
    return load_catalog("holdfast", type="sql", uri=f"sqlite:///{place}", warehouse=f"file://{os.path.dirname(place)}")
