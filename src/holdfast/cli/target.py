"""The table that a command is about, and the ways to open it.

1. Opening a table for its log or its rows imports no Spark; only an Iceberg table imports pyiceberg.
2. The error for a path without a table says what is there instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from holdfast.verbs.open.open_table import OpenTable

IN_A_SHELL = Remedies(
    parquet="make one of them with `holdfast append --create NEW_TABLE FILES`, or in place with "
    "DeltaTable.convertToDelta",
    iceberg="name its metadata file, {}",
    empty="make a table in it with `holdfast append --create {} FILES`",
)


@dataclass(frozen=True)
class Opened:
    """A version of a table of either format."""

    table: OpenTable
    delta: DeltaState | None = None  # the state of a Delta table
    iceberg: Any = None  # the state of an Iceberg table

    @property
    def snapshot(self) -> Snapshot:
        return self.table.snapshot


@dataclass(frozen=True, slots=True)
class Target:
    """A table as named on the command line."""

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
        """The newest version of the table, or the version at a number, name or time."""
        if self.is_iceberg:
            state = self._iceberg(version, at)
            from holdfast.verbs.open.iceberg import open_iceberg

            return Opened(open_iceberg(state), iceberg=state)
        delta = self.delta(version, at)
        return Opened(open_delta(delta), delta)

    def delta(self, version: str | None = None, at: str | None = None) -> DeltaState:
        """The state of a Delta table, at the newest or at another version."""
        self._refuse_iceberg()
        location = self.location
        with saying_what_is_there(location):
            now = load(location)
        if version is None and at is None:
            return now
        number = None if version is None else pinned_or_number(now, version)
        earlier = load(location, version=number, timestamp_ms=None if at is None else moment_ms(at, zone="UTC"))
        if missing_file(now, earlier) is not None:
            self.table().explain(version=earlier.version)  # raises, and names the vacuum that deleted its files
        return earlier

    def table(self, *, spark: bool = False) -> Any:
        """The DeltaTable; with a session only if `spark` is set."""
        self._refuse_iceberg()
        session = holdfast.session() if spark else None
        with saying_what_is_there(self.location):
            return holdfast.DeltaTable.forPath(
                session, self.name, storage_options=dict(self.storage) or None, allow_outside=self.allow_outside
            )

    def either(self, *, spark: bool = False) -> Any:
        """The DeltaTable or IcebergTable."""
        if not self.is_iceberg:
            return self.table(spark=spark)
        session = holdfast.session() if spark else None
        options = {"storage_options": dict(self.storage) or None, "allow_outside": self.allow_outside}
        if self.catalog is None:
            return holdfast.IcebergTable.forMetadata(session, self.name, **options)
        return holdfast.IcebergTable.load(session, self.catalog, self.name, **options)

    def _iceberg(self, version: str | None, at: str | None) -> Any:
        from holdfast.formats.iceberg import state as iceberg

        options = dict(self.storage) or None
        if self.catalog is None:
            state = iceberg.load(self.name, storage_options=options, allow_outside=self.allow_outside)
        else:
            from holdfast.formats.iceberg.catalog.tables import catalog_table

            table = catalog_table(self.catalog, self.name, storage_options=options, allow_outside=self.allow_outside)
            state = table.newest(None)
        moment = None if at is None else moment_ms(at, zone="UTC")
        return iceberg.time_travel(state, version=number_or_name(version), timestamp_ms=moment)

    def _refuse_iceberg(self) -> None:
        if self.is_iceberg:
            raise Unsupported(
                f"{self.name} is an Iceberg table, and this command is about Delta tables: show, history, detail, "
                "files, check, biography and publish are for both"
            )


@contextmanager
def saying_what_is_there(location: Location) -> Iterator[None]:
    """Make the error about a missing table say what is there instead."""
    try:
        yield
    except NotATable as error:
        raise NotATable(advice(location, IN_A_SHELL), location=location.url) from error


def pinned_or_number(state: DeltaState, version: str) -> int:
    """The version of a number or of a pin's name."""
    if version.isdigit():
        return int(version)
    pins = pins_of(state)
    if version not in pins:
        pinned = f"pinned are {', '.join(pins)}" if pins else "none is pinned"
        raise UnknownVersion(f"no version is called {version!r}: give a number or the name of a pin ({pinned})")
    return pins[version]


def number_or_name(version: str | None) -> int | str | None:
    """A version as a number if it is one; else its name or time."""
    return int(version) if version is not None and version.isdigit() else version


def columns_of(texts: tuple[str, ...]) -> list[str] | None:
    """Column names from several options, or from one with commas; None if there are none."""
    names = [name.strip() for text in texts for name in text.split(",")]
    if any(not name for name in names):
        raise Invalid(f"--columns {','.join(texts)} names a column that has no name: take a comma out")
    return names or None
