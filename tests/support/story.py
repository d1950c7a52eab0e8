"""A table and a plain-Python model of its rows, changed together and compared after every step.

The model knows each row's id and version. Ids of new rows are the table's to choose: they must be above every id that
was ever given out, and are then remembered. Of a table that does not track rows only the rows themselves are compared;
such a table another engine may change too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import deltalake
import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.env import system
from holdfast.errors import AmbiguousMatch
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.state import load
from holdfast.plan.dml.change import Side
from holdfast.storage.open import open_location
from tests.support.sayings import Row, Said, When, only_deletes, shown, takers

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("d", pa.float64()), ("p", pa.string())])
MODES = ("merge-on-read", "copy-on-write", "auto")

Open: TypeAlias = Callable[[str], DeltaTable]  # a table by its path, on some engine
Known: TypeAlias = dict[int, tuple[int, Row]]  # by id: the version of the row, and its values


@dataclass(frozen=True)
class Kind:
    """What kind of table the story is about."""

    partitioned: bool = False
    mapped: bool = False
    vectors: bool = True
    feed: bool = False
    checkpoints: int = 100
    tracked: bool = True

    @property
    def properties(self) -> dict[str, str]:
        return {
            "delta.enableRowTracking": str(self.tracked).lower(),
            "holdfast.plain": str(not self.tracked).lower(),
            "delta.enableDeletionVectors": str(self.vectors).lower(),
            "delta.enableChangeDataFeed": str(self.feed).lower(),
            "delta.columnMapping.mode": "name" if self.mapped else "none",
            "delta.checkpointInterval": str(self.checkpoints),
        }


@dataclass
class Story:
    """One table from its first version on."""

    path: str
    open: Open
    kind: Kind
    rows: Known = field(default_factory=dict)
    versions: dict[int, Known] = field(default_factory=dict)
    high_water: int = -1

    def __post_init__(self) -> None:
        self.create()
        self.check([])

    def create(self) -> None:
        builder = DeltaTable.create(None).location(self.path).addColumns(COLUMNS)
        for name, value in self.kind.properties.items():
            builder = builder.property(name, value)
        (builder.partitionedBy("p") if self.kind.partitioned else builder).execute()

    def version(self) -> int:
        """What rows that the newest commit changed say they were changed in."""
        return self.open(self.path).version

    def read(self) -> list[Row]:
        """The rows, and their ids and versions where the table has them."""
        metadata = ["_row_id", "_row_commit_version"] if self.kind.tracked else []
        found: list[Row] = DeltaTable.forPath(None, self.path).toArrow(metadata=metadata).to_pylist()
        return found

    def mark(self) -> int:
        """The highest id that was given out."""
        identity = load(open_location(self.path)).snapshot.identity
        assert identity is not None
        return identity.high_water

    @property
    def table(self) -> DeltaTable:
        return self.open(self.path).alias("t")

    @property
    def modes(self) -> tuple[str | None, ...]:
        """The modes that this kind of table has."""
        return (None, *MODES) if self.kind.vectors else (None, *MODES[1:])

    def append(self, rows: Sequence[Row]) -> None:
        self.table.append(pa.Table.from_pylist(list(rows), COLUMNS))
        self.check(rows)

    def delete(self, condition: Said | None, mode: str | None) -> None:
        self._apply([When(Side.ALONE, condition, None)])
        self.table.delete(None if condition is None else condition.text, mode=mode)
        self.check([])

    def update(self, condition: Said | None, sets: tuple[tuple[str, Said], ...], mode: str | None) -> None:
        changed = self._apply([When(Side.ALONE, condition, sets)])
        texts = {name: said.text for name, said in sets}
        self.table.update(None if condition is None else condition.text, texts, mode=mode)
        self.check([], changed)

    def merge(self, source: Sequence[Row], on: Said, whens: Sequence[When], mode: str | None) -> None:
        """Merge rows; where the model says that it is ambiguous, the table must refuse and stay as it is."""
        builder: Any = self.table.merge(pa.Table.from_pylist(list(source), COLUMNS), on.text, mode=mode)
        for when in whens:
            condition = None if when.condition is None else when.condition.text
            sets = {name: said.text for name, said in when.sets or ()}
            match when.side, when.sets:
                case Side.MATCHED, None:
                    builder = builder.whenMatchedDelete(condition)
                case Side.MATCHED, _:
                    builder = builder.whenMatchedUpdate(condition, sets)
                case Side.ALONE, None:
                    builder = builder.whenNotMatchedBySourceDelete(condition)
                case Side.ALONE, _:
                    builder = builder.whenNotMatchedBySourceUpdate(condition, sets)
                case _:
                    builder = builder.whenNotMatchedInsert(condition, sets)
        doubled = [row for _, row in self.rows.values() if len(takers(row, source, on, whens)) > 1]
        if doubled and not only_deletes(whens):
            with pytest.raises(AmbiguousMatch):
                builder.execute()
            self.check([])
            return
        new = self._new(source, on, whens)
        changed = self._apply(whens, source, on)
        builder.execute()
        self.check(new, changed)

    def restore(self, version: int) -> None:
        self.rows = dict(self.versions[version])
        self.table.restoreToVersion(version)
        self.check([])

    def checkpoint(self) -> None:
        write_checkpoint(load(open_location(self.path)), system())
        self.check([])

    def compact_log(self) -> None:
        self.table.compactLog()
        self.check([])

    def compact(self, rows: int) -> None:
        """Write files together, or put rows in order where the table is clustered."""
        self.table.optimize(targetRows=rows).executeCompaction()
        self.check([])

    def purge(self) -> None:
        self.table.purge()
        self.check([])

    def z_order(self, names: Sequence[str], rows: int) -> None:
        if not load(open_location(self.path)).snapshot.clustering_columns:
            self.table.optimize(targetRows=rows).executeZOrderBy(*names)
            self.check([])

    def recluster(self, names: Sequence[str], rows: int) -> None:
        """Cluster by these columns from now on, and put all rows in their order."""
        self.table.clusterBy(*names)
        self.check([])
        self.table.optimize(full=True, targetRows=rows).executeCompaction()
        self.check([])

    def append_by_peer(self, rows: Sequence[Row]) -> None:
        deltalake.write_deltalake(self.path, pa.Table.from_pylist(list(rows), COLUMNS), mode="append")
        self.check(rows)

    def delete_by_peer(self, condition: Said) -> None:
        self._apply([When(Side.ALONE, condition, None)])
        deltalake.DeltaTable(self.path).delete(condition.text)
        self.check([])

    def compact_by_peer(self) -> None:
        deltalake.DeltaTable(self.path).optimize.compact()
        self.check([])

    def check(self, new: Sequence[Row], changed: Sequence[int] = ()) -> None:
        """Compare the table, opened again, with the model, once `new` rows are in it and these ids were changed."""
        version = self.version()
        if not self.kind.tracked:
            self._check_rows(version, new)
            return
        self.rows |= {row_id: (version, self.rows[row_id][1]) for row_id in changed}
        found = self.read()
        got = {row.pop("_row_id"): (row.pop("_row_commit_version"), row) for row in found}
        assert len(got) == len(found), "row ids are unique"
        fresh = {row_id: got[row_id] for row_id in got.keys() - self.rows.keys()}
        assert all(row_id > self.high_water for row_id in fresh), "row ids are never given out again"
        assert {v for v, _ in fresh.values()} <= {version}
        assert sorted(shown([row]) for _, row in fresh.values()) == sorted(shown([row]) for row in new)
        kept = {row_id: got.get(row_id) for row_id in self.rows}
        assert _text(kept) == _text(self.rows)
        self.rows = got
        mark = self.mark()
        assert mark >= max(self.high_water, *got, -1)
        self.high_water = mark
        self.versions[version] = dict(got)

    def _check_rows(self, version: int, new: Sequence[Row]) -> None:
        for row in new:
            self.high_water += 1
            self.rows[self.high_water] = version, row
        found = self.read()
        assert sorted(shown([row]) for row in found) == sorted(shown([row]) for _, row in self.rows.values())
        self.versions[version] = dict(self.rows)

    def _apply(self, whens: Sequence[When], source: Sequence[Row] = (), on: Said | None = None) -> list[int]:
        """Change the model's rows; gives the ids of those that were updated."""
        changed = []
        for row_id, (version, row) in list(self.rows.items()):
            for when, partner in takers(row, source, on, whens)[:1]:
                if when.sets is None:
                    del self.rows[row_id]
                else:
                    self.rows[row_id] = version, when.after(row, partner)
                    changed.append(row_id)
        return changed

    def _new(self, source: Sequence[Row], on: Said, whens: Sequence[When]) -> list[Row]:
        nothing = dict.fromkeys(COLUMNS.names)
        inserts = [when for when in whens if when.side is Side.NEW]
        new = []
        for s in source:
            if not any(on.means(t, s) is True for _, t in self.rows.values()):
                taken = next((when for when in inserts if when.takes(s, s)), None)
                new += [] if taken is None else [taken.after(nothing, s)]
        return new


def _text(rows: Any) -> str:
    return repr({row_id: row and (row[0], sorted(row[1].items())) for row_id, row in sorted(rows.items())})
