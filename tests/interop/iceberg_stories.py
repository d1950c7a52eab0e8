"""Iceberg tables that Holdfast wrote: each told step by step, with a model of its rows beside it.

1. A story is a format version, a way to partition and a way to change rows; every step is one commit.
2. The model is plain Python and knows nothing of files; what a table holds after a step is what the model says.
3. Partitioning and columns are changed by pyiceberg, on the same catalog, as a user would.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyiceberg.transforms import DayTransform
from pyiceberg.types import StringType

from holdfast import IcebergTable
from holdfast.formats.iceberg.catalog.tables import catalog_table

Row: TypeAlias = dict[str, Any]
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("kind", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("amount", pa.float64()),
        ("tags", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))),
        ("props", pa.map_(pa.string(), pa.int64())),
    ]
)
LAYOUTS = {
    "not partitioned": (),
    "by value": ("kind",),
    "by bucket and day": ("bucket(4, id)", "day(ts)"),
    "partitioned anew": ("kind",),
}
MODES = ("merge-on-read", "copy-on-write")
UPGRADED = "2 to 3"
VERSIONS = ("2", "3", UPGRADED)


@dataclass(frozen=True, slots=True)
class Plot:
    """What a story is about."""

    version: str
    layout: str
    mode: str

    @property
    def title(self) -> str:
        return f"version {self.version}, {self.layout}, {self.mode}"


@dataclass(frozen=True, slots=True)
class Told:
    """A table after a step."""

    plot: Plot
    step: str
    table: IcebergTable
    metadata: Path
    rows: pa.Table

    @property
    def has_ids(self) -> bool:
        return self.table.formatVersion >= 3


PLOTS = tuple(Plot(*chosen) for chosen in itertools.product(VERSIONS, LAYOUTS, MODES))


def row(n: int) -> Row:
    """The row of a number."""
    return {
        "id": n,
        "kind": (None, "a", "b/ä %2F")[n % 3],
        "ts": datetime.datetime(2024, 5, 1 + n % 3, 23, 59, tzinfo=datetime.UTC),
        "amount": n * 0.5,
        "tags": None if n % 5 == 0 else [{"a": n, "b": f"x{n}"}, None],
        "props": [("k", n), ("null", None)],
    }


@dataclass
class Model:
    """The rows there should be, by id."""

    rows: dict[int, Row] = field(default_factory=dict)
    schema: pa.Schema = COLUMNS

    def add(self, numbers: range) -> pa.Table:
        fresh = [row(n) for n in numbers]
        self.rows |= {given["id"]: given for given in fresh}
        return pa.Table.from_pylist(fresh, self.schema)

    def remove(self, *numbers: int) -> str:
        for n in numbers:
            del self.rows[n]
        return f"id in ({', '.join(map(str, numbers))})"

    def raise_amount(self, *numbers: int) -> str:
        for n in numbers:
            self.rows[n] = {**self.rows[n], "amount": self.rows[n]["amount"] + 1000.0}
        return f"id in ({', '.join(map(str, numbers))})"

    def upsert(self, *numbers: int) -> pa.Table:
        given = [{**row(n), "amount": -1.0, "kind": "merged"} for n in numbers]
        self.rows |= {one["id"]: one for one in given}
        return pa.Table.from_pylist(given, self.schema)

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(list(self.rows.values()), self.schema)


def tell(plot: Plot, home: Path) -> Iterator[Told]:
    """The table after each of its steps; it lives in a catalog of its own under `home`."""
    catalog = home / "catalog.db"
    modes = {f"write.{verb}.mode": plot.mode for verb in ("delete", "update", "merge")}
    table = IcebergTable.create(
        None,
        catalog,
        "db.t",
        COLUMNS,
        partitionedBy=LAYOUTS[plot.layout],
        formatVersion=int(plot.version[0]),
        properties=modes,
    )
    model = Model()

    def told(step: str) -> Told:
        place = Path(table.handle.newest().metadata_path.removeprefix("file://"))
        return Told(plot, step, IcebergTable.forMetadata(None, place), place, model.table())

    def upsert(*numbers: int) -> None:
        merge = table.alias("t").merge(model.upsert(*numbers), "t.id = s.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    table.append(model.add(range(0, 20)))
    table.append(model.add(range(20, 40)))
    yield told("append")
    table.delete(model.remove(3, 5, 21))
    yield told("delete")
    table.delete(model.remove(4, 22))
    yield told("delete again")
    if plot.layout == "partitioned anew":
        _partition_anew(catalog)
        table.append(model.add(range(40, 50)))
        yield told("partition anew")
    table.update(model.raise_amount(6, 7, 25), {"amount": "amount + 1000"})
    yield told("update")
    if plot.version == UPGRADED:
        assert table.upgrade() == 3
        yield told("upgrade")
    upsert(8, 26, 60, 61)
    yield told("merge")
    _add_column(catalog)
    model.schema = COLUMNS.append(pa.field("note", pa.string()))
    model.rows = {n: {**given, "note": None} for n, given in model.rows.items()}
    table.update(model.raise_amount(60, 30), {"amount": "amount + 1000"})
    yield told("column added")
    table.delete(model.remove(*[n for n, given in model.rows.items() if given["kind"] == "merged"]))
    yield told("delete a partition")
    table.optimize().executeCompaction()
    yield told("compact")
    table.delete(model.remove(0, 30))
    upsert(1, 70)
    yield told("change again")
    table.overwrite(model.upsert(9, 71), replaceWhere="id = 9 or id = 71")
    yield told("overwrite")


def _partition_anew(catalog: Path) -> None:
    """By day, where it was by kind."""
    with _theirs(catalog).update_spec() as update:
        update.remove_field("kind")
        update.add_field("ts", DayTransform(), "ts_day")


def _add_column(catalog: Path) -> None:
    with _theirs(catalog).update_schema() as update:
        update.add_column("note", StringType())


def _theirs(catalog: Path) -> Any:
    """pyiceberg's table; its catalog writes version 3 the way ours does."""
    return catalog_table(catalog, "db.t").catalog.load_table("db.t")
