"""The table that a command is about: named once, opened as far as the command needs.

1. Opening for the log or for rows imports no Spark; an Iceberg table brings pyiceberg with it, a Delta table does not.
2. A place without a table is refused with what lies there instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import holdfast
from holdfast.errors import Invalid, NotATable, UnknownVersion, Unsupported
from holdfast.formats.delta.history.pins import pins_of
from holdfast.formats.delta.history.vacuums import missing_file
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.snapshot import Snapshot
from holdfast.storage.location import Location
from holdfast.storage.no_table_advice import Remedies, advice
from holdfast.storage.open import open_location
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.open.moment import moment_ms
from holdfast.verbs.read.open_table import OpenTable

IN_A_SHELL = Remedies(
    parquet="make one of them with `holdfast append --create NEW_TABLE FILES`, or in place with "
    "DeltaTable.convertToDelta",
    iceberg="name its metadata file, {}",
    empty="make a table in it with `holdfast append --create {} FILES`",
)


@dataclass(frozen=True)
class Opened:
    """A version of a table, of whichever format, as commands read it."""

    table: OpenTable
    state: Any  # of its format
    format: str

    @property
    def snapshot(self) -> Snapshot:
        """The version, as data."""
        return self.table.snapshot


@dataclass(frozen=True, slots=True)
class Target:
    """A table by its name on the command line."""

    name: str
    catalog: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_outside: bool | tuple[str, ...] = False

    @property
    def is_iceberg(self) -> bool:
        return self.catalog is not None or self.name.endswith(".metadata.json")

    @property
    def location(self) -> Location:
        options = dict(self.storage) or None
        return open_location(self.name, storage_options=options, allow_outside=self.allow_outside)

    def open(self, version: str | None = None, at: str | None = None) -> Opened:
        """The table as it is, or was at a version or a moment."""
        if self.is_iceberg:
            state = self._iceberg(version, at)
            return Opened(import_module("holdfast.verbs.open.iceberg").open_iceberg(state), state, "iceberg")
        delta = self.delta(version, at)
        return Opened(open_delta(delta), delta, "delta")

    def delta(self, version: str | None = None, at: str | None = None) -> DeltaState:
        """The same of a Delta table, with what only its log says."""
        self._refuse_iceberg()
        location = self.location
        with saying_what_is_there(location):
            now = load(location)
        if version is None and at is None:
            return now
        number = None if version is None else pinned_or_number(now, version)
        then = load(location, version=number, timestamp_ms=None if at is None else moment_ms(at, zone="UTC"))
        if missing_file(now, then) is not None:
            self.table().explain(version=then.version)  # refuses it, and says which vacuum took its files
        return then

    def table(self, *, spark: bool = False) -> Any:
        """The Delta table with its verbs; with a session only where that is asked for."""
        self._refuse_iceberg()
        session = holdfast.session() if spark else None
        with saying_what_is_there(self.location):
            return holdfast.DeltaTable.forPath(
                session, self.name, storage_options=dict(self.storage) or None, allow_outside=self.allow_outside
            )

    def either(self, *, spark: bool = False) -> Any:
        """The table with its verbs, of whichever format."""
        if not self.is_iceberg:
            return self.table(spark=spark)
        session = holdfast.session() if spark else None
        options = {"storage_options": dict(self.storage) or None, "allow_outside": self.allow_outside}
        if self.catalog is None:
            return holdfast.IcebergTable.forMetadata(session, self.name, **options)
        return holdfast.IcebergTable.load(session, self.catalog, self.name, **options)

    def _iceberg(self, version: str | None, at: str | None) -> Any:
        iceberg = import_module("holdfast.formats.iceberg.state")
        options = dict(self.storage) or None
        if self.catalog is None:
            state = iceberg.load(self.name, storage_options=options, allow_outside=self.allow_outside)
        else:
            catalogs = import_module("holdfast.formats.iceberg.catalog.tables")
            found = catalogs.catalog_table(
                self.catalog, self.name, storage_options=options, allow_outside=self.allow_outside
            )
            state = found.newest(None)
        number = int(version) if version is not None and version.isdigit() else version
        moment = None if at is None else moment_ms(at, zone="UTC")
        return iceberg.time_travel(state, version=number, timestamp_ms=moment)

    def _refuse_iceberg(self) -> None:
        if self.is_iceberg:
            raise Unsupported(
                f"{self.name} is an Iceberg table, and this command is about Delta tables: show, history, detail, "
                "files, check, biography and publish are for both"
            )


@contextmanager
def saying_what_is_there(location: Location) -> Iterator[None]:
    """Where there is no table, say what there is."""
    try:
        yield
    except NotATable as error:
        raise NotATable(advice(location, IN_A_SHELL), location=location.url) from error


def pinned_or_number(state: DeltaState, version: str) -> int:
    """The version that a user names, by its number or by a pin."""
    if version.isdigit():
        return int(version)
    pins = pins_of(state)
    if version not in pins:
        known = f"pinned are {', '.join(pins)}" if pins else "none is pinned"
        raise UnknownVersion(f"no version is called {version!r}: give a number or the name of a pin ({known})")
    return pins[version]


def columns_of(given: tuple[str, ...]) -> list[str] | None:
    """Columns as they are named: several options, or one with commas; None where none is."""
    names = [name.strip() for text in given for name in text.split(",")]
    if any(not name for name in names):
        raise Invalid(f"--columns {','.join(given)} names a column that has no name: take a comma out")
    return names or None
