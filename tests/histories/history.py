"""A random history of a table: steps that Holdfast carries out, and a model that says what must come of them.

The model is a dictionary of rows by id, changed by plain Python. After each step the table is read by `witness`, and
rows, ids and versions must be the model's. Which ids new rows get is the table's to choose: above all before them.

1. Neither the model nor the witness shares code with the library.
2. A step follows from the seed and from what the steps before it left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from holdfast import DeltaTable, IcebergTable
from tests.histories import witness
from tests.histories.witness import Row, Witnessed

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
CONDITIONS: tuple[tuple[str, Callable[[Row, int], bool]], ...] = (
    ("k = {}", lambda row, n: row["k"] == n),
    ("k < {}", lambda row, n: row["k"] is not None and row["k"] < n),
    ("v IS NULL OR k > {}", lambda row, n: row["v"] is None or (row["k"] is not None and row["k"] > n)),
    ("k >= {} AND v IS NOT NULL", lambda row, n: row["k"] is not None and row["k"] >= n and row["v"] is not None),
    ("s = 's{}'", lambda row, n: row["s"] == f"s{n}"),
    ("k IS NULL", lambda row, n: row["k"] is None),
)
SETS: tuple[tuple[str, str, Callable[[Row], Any]], ...] = (
    ("v", "v + 1", lambda row: None if row["v"] is None else row["v"] + 1),
    ("v", "k * 2", lambda row: None if row["k"] is None else row["k"] * 2),
    ("s", "'changed'", lambda row: "changed"),
    ("s", "NULL", lambda row: None),
)
MODES = (None, "merge-on-read", "copy-on-write")


class History:
    """One table from its creation on."""

    steps: tuple[str, ...] = (
        *("append", "append", "delete", "update", "update", "merge", "compact", "order", "purge", "restore"),
        *("add_column", "rename_column", "drop_column"),
    )

    def __init__(self, path: Path, rng: Random, spark: Any = None) -> None:
        self.path, self.rng, self.spark = path, rng, spark
        self.rows: dict[int, tuple[int, Row]] = {}
        self.columns = {name: name for name in COLUMNS.names}  # and what each was called first
        self.highest = -1
        self.fresh = 0
        self.kept: dict[Any, tuple[dict[int, tuple[int, Row]], dict[str, str]]] = {}
        self.modes: tuple[str | None, ...] = MODES
        self.told: list[str] = []  # what was done, for whoever looks into a failure
        self.create()

    # What a format has its own way of.

    def create(self) -> None:
        raise NotImplementedError

    def table(self) -> Any:
        raise NotImplementedError

    def read(self) -> Witnessed:
        raise NotImplementedError

    def mark(self, found: Witnessed) -> Any:
        """What the table as it is now can be restored to; None where it cannot."""
        raise NotImplementedError

    def step(self) -> None:
        """One step, drawn at random, and a look at what came of it."""
        name = self.rng.choice(self.steps)
        self.told.append(name)
        new, changed = getattr(self, name)() or ((), set())
        self.check(new, changed)

    def check(self, new: Sequence[Row], changed: set[int]) -> None:
        found = self.read()
        said = "; ".join(self.told)
        for row_id in changed:
            self.rows[row_id] = found.version, self.rows[row_id][1]
        kept = {row_id: row for row_id, row in found.rows.items() if row_id in self.rows}
        assert kept == self.rows, f"rows changed, were lost or have other versions after {said}"
        added = {row_id: row for row_id, row in found.rows.items() if row_id not in self.rows}
        assert all(row_id > self.highest for row_id in added), f"an id was given out twice after {said}"
        assert {version for version, _ in added.values()} <= {found.version}, said
        assert _sorted(row for _, row in added.values()) == _sorted(new), f"other rows than were added after {said}"
        self.rows |= added
        self.highest = max([self.highest, *added])
        if (mark := self.mark(found)) is not None:
            self.kept[mark] = dict(self.rows), dict(self.columns)
        theirs = self.ours()
        assert theirs == self.rows, f"Holdfast reads other rows than the witness after {said}"

    def ours(self) -> dict[int, tuple[int, Row]]:
        """The same rows as Holdfast reads them."""
        names = self.metadata
        read = self.table().toArrow(metadata=names).to_pylist()
        return {row.pop(names[0]): (row.pop(names[1]), row) for row in read}

    metadata: tuple[str, str] = ("_row_id", "_row_commit_version")

    # Steps: each changes the table and the model, and says which rows are new and which were changed.

    def append(self) -> Any:
        new = [self.draw() for _ in range(self.rng.randrange(1, 8))]
        self.table().append(pa.Table.from_pylist(new, self.schema()))
        return new, set()

    def delete(self) -> Any:
        text, means = self.condition()
        self.table().delete(text, mode=self.rng.choice(self.modes))
        self.rows = {row_id: told for row_id, told in self.rows.items() if not means(told[1])}
        return (), set()

    def update(self) -> Any:
        text, means = self.condition()
        name, value, made = self.rng.choice(SETS)
        self.table().update(text, {name: value}, mode=self.rng.choice(self.modes))
        changed = {row_id for row_id, (_, row) in self.rows.items() if means(row)}
        for row_id in changed:
            version, row = self.rows[row_id]
            self.rows[row_id] = version, {**row, name: made(row)}
        return (), changed

    def merge(self) -> Any:
        keys = self.rng.sample([None, *range(10)], self.rng.randrange(1, 5))
        source = [{"k": key, "v": self.rng.randrange(100), "s": "merged"} for key in keys]
        builder = self.table().alias("t").merge(pa.Table.from_pylist(source, COLUMNS), "t.k = s.k")
        matched = {row_id for row_id, (_, row) in self.rows.items() if row["k"] is not None and row["k"] in keys}
        there = {self.rows[row_id][1]["k"] for row_id in matched}
        new = [dict.fromkeys(self.columns) | row for row in source if row["k"] not in there]
        if self.rng.random() < 0.7:
            builder = builder.whenMatchedUpdate(set={"v": "s.v"})
            values = {row["k"]: row["v"] for row in source}
            for row_id in matched:
                version, row = self.rows[row_id]
                self.rows[row_id] = version, {**row, "v": values[row["k"]]}
        else:
            builder = builder.whenMatchedDelete()
            self.rows = {row_id: told for row_id, told in self.rows.items() if row_id not in matched}
            matched = set()
        builder.whenNotMatchedInsert(values={name: f"s.{name}" for name in COLUMNS.names}).execute()
        return new, matched

    def compact(self) -> Any:
        self.table().optimize(targetRows=self.rng.randrange(1, 12)).executeCompaction()

    def order(self) -> Any:
        self.table().optimize(targetRows=self.rng.randrange(1, 12)).executeZOrderBy(self.rng.choice(["k", "v"]))

    def purge(self) -> Any:
        self.table().purge()

    def restore(self) -> Any:
        if len(self.kept) > 1:
            mark = self.rng.choice(sorted(self.kept))
            self.table().restoreToVersion(mark)
            rows, columns = self.kept[mark]
            self.restored(dict(rows), dict(columns))

    def restored(self, rows: dict[int, tuple[int, Row]], columns: dict[str, str]) -> None:
        self.rows, self.columns = rows, columns

    def add_column(self) -> Any:
        self.fresh += 1
        name = f"e{self.fresh}"
        self.table().addColumns({name: "bigint"})
        self.columns[name] = name
        self.rows = {row_id: (version, {**row, name: None}) for row_id, (version, row) in self.rows.items()}

    def rename_column(self) -> Any:
        if extra := list(self.columns)[3:]:
            self.fresh += 1
            old, new = self.rng.choice(extra), f"e{self.fresh}"
            self.table().renameColumn(old, new)
            self.columns = {new if name == old else name: first for name, first in self.columns.items()}
            self.rows = {
                row_id: (version, {new if n == old else n: value for n, value in row.items()})
                for row_id, (version, row) in self.rows.items()
            }

    def drop_column(self) -> Any:
        if extra := list(self.columns)[3:]:
            name = self.rng.choice(extra)
            self.table().dropColumn(name)
            del self.columns[name]
            self.rows = {
                row_id: (version, {n: value for n, value in row.items() if n != name})
                for row_id, (version, row) in self.rows.items()
            }

    # What steps are made of.

    def schema(self) -> pa.Schema:
        return pa.schema([*COLUMNS, *((name, pa.int64()) for name in list(self.columns)[3:])])

    def draw(self) -> Row:
        row: Row = {
            "k": self.rng.choice([None, *range(10)]),
            "v": self.rng.choice([None, *range(5)]),
            "s": self.rng.choice([None, *(f"s{n}" for n in range(5))]),
        }
        return row | {name: self.rng.choice([None, 7]) for name in list(self.columns)[3:]}

    def condition(self) -> tuple[str, Callable[[Row], bool]]:
        (text, means), n = self.rng.choice(CONDITIONS), self.rng.randrange(10)
        return text.format(n), lambda row: means(row, n)


def _sorted(rows: Any) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


class DeltaHistory(History):
    """A Delta table, whose versions are those of its log; some have rows before rows have ids."""

    steps = (*History.steps, "cluster")

    def create(self) -> None:
        builder = DeltaTable.create(None).location(str(self.path)).addColumns(COLUMNS)
        tracked = self.rng.random() < 0.7
        properties = {
            "delta.enableRowTracking": str(tracked).lower(),
            "holdfast.plain": str(not tracked).lower(),
            "delta.columnMapping.mode": "name",
            "delta.enableDeletionVectors": self.rng.choice(["true", "false"]),
            "delta.enableChangeDataFeed": self.rng.choice(["true", "false"]),
            "delta.checkpointInterval": self.rng.choice(["3", "100"]),
        }
        if properties["delta.enableDeletionVectors"] == "false":
            self.modes = (None, "copy-on-write")
        for name, value in properties.items():
            builder = builder.property(name, value)
        self.partitioned = self.rng.random() < 0.3
        (builder.partitionedBy("s") if self.partitioned else builder).execute()
        if not tracked:
            self._begin_without_ids()

    def _begin_without_ids(self) -> None:
        rows = [self.draw() for _ in range(12)]
        for some in (rows[:5], rows[5:]):
            self.table().append(pa.Table.from_pylist(some, COLUMNS))
        self.table().delete("k < 4")
        self.table().enableRowTracking()
        self.rows = self.read().rows
        left = [row for row in rows if row["k"] is None or row["k"] >= 4]
        assert _sorted(row for _, row in self.rows.values()) == _sorted(left), "rows got ids, and nothing else"
        self.highest = max(self.rows, default=-1)

    def cluster(self) -> Any:
        """From now on, and all rows at once."""
        if not self.partitioned:
            self.table().clusterBy(self.rng.choice(["k", "v"]))
            self.table().optimize(full=True, targetRows=self.rng.randrange(1, 12)).executeCompaction()

    def order(self) -> Any:
        if not witness.clustered(self.path):
            super().order()

    def table(self) -> Any:
        return DeltaTable.forPath(self.spark, str(self.path))

    def read(self) -> Witnessed:
        return witness.delta(self.path)

    def mark(self, found: Witnessed) -> Any:
        return found.version


class IcebergHistory(History):
    """An Iceberg table of version 3, whose versions are sequence numbers; it is restored to snapshots."""

    metadata = ("_row_id", "_last_updated_sequence_number")

    def create(self) -> None:
        self.path.mkdir()
        mode = self.rng.choice(["merge-on-read", "copy-on-write"])
        modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
        placed = ("s",) if self.rng.random() < 0.3 else ()
        IcebergTable.create(
            None, self.path / "c.db", "db.t", COLUMNS, formatVersion=3, partitionedBy=placed, properties=modes
        )

    def table(self) -> Any:
        return IcebergTable.load(self.spark, self.path / "c.db", "db.t")

    def read(self) -> Witnessed:
        return witness.iceberg(self.path / "c.db")

    def mark(self, found: Witnessed) -> Any:
        version = IcebergTable.load(None, self.path / "c.db", "db.t").version
        return None if version < 0 else version

    def restored(self, rows: dict[int, tuple[int, Row]], columns: dict[str, str]) -> None:
        """Rows come back; the columns stay those of the table, whatever they were called then."""
        then = {first: name for name, first in columns.items()}
        self.rows = {
            row_id: (version, {name: row.get(then.get(first, "")) for name, first in self.columns.items()})
            for row_id, (version, row) in rows.items()
        }
