"""Repairs of random mixes of rounded and exact partition values and deletes: no deleted row comes back."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.formats.iceberg.smith import Entry, Smith
from tests.formats.iceberg.test_defaults import registered
from tests.formats.iceberg.test_repair import NEXT, P, as_float, bounded, ids, smith

VALUES = [P, NEXT, as_float(P), 0.5, 1e308]


@dataclass
class Story:
    """A table in the making, and what the format says of its rows."""

    made: Smith
    dice: random.Random
    files: list[tuple[Entry, float, list[int]]]  # what manifests say, the true value, ids
    visible: set[int]  # by the format, with tuples as they stand
    meant: set[int]  # as who deleted rows meant it

    def place(self, value: float) -> float:
        return as_float(value) if self.dice.random() < 0.6 else value

    def add(self) -> None:
        value, first = self.dice.choice(VALUES), 10 * len(self.files)
        numbers = [first, first + 1, first + 2]
        entry = self.made.data({"id": numbers, "p": [value] * 3}, partition={"p": self.place(value)})
        if self.dice.random() < 0.15:
            entry |= {"lower_bounds": None, "upper_bounds": None}
        self.files.append((entry, value, numbers))
        self.visible |= set(numbers)
        self.meant |= set(numbers)
        self.made.commit([entry])

    def by_position(self) -> None:
        """Deletes about one file, or several of one value."""
        entry, value, numbers = self.dice.choice(self.files)
        where = self.place(value)
        alike = [file for file in self.files if file[1] == value and file[0] is not entry]
        chosen = [(entry, value, numbers), *(alike[:1] if self.dice.random() < 0.5 else [])]
        like = {**entry, "partition": {"p": where}}
        places = [(file["file_path"], 0) for file, _, _ in chosen]
        self.made.commit(deletes=[self.made.positions(places, like=like, one=len(places) == 1)])
        self._gone([(file, rows[0]) for file, _, rows in chosen], where)

    def by_value(self) -> None:
        entry, value, numbers = self.dice.choice(self.files)
        where = self.place(value)
        like = {**entry, "partition": {"p": where}}
        by = {"id": [numbers[1]], "p": [value]}
        gone = self.made.equality({"id": 1}, {"id": by["id"]}, like=like)
        if self.dice.random() < 0.6:
            gone = self.made.equality({"id": 1, "p": 2}, by, like=like)
            gone = bounded(gone, value) if self.dice.random() < 0.5 else gone
        self.made.commit(deletes=[gone])
        self._gone([(entry, numbers[1])], where)

    def _gone(self, rows: list[tuple[Entry, int]], where: float) -> None:
        self.meant -= {row for _, row in rows}
        self.visible -= {row for file, row in rows if file["partition"]["p"] == where}


@pytest.mark.parametrize("seed", range(12))
def test_no_deleted_row_comes_back(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    story = Story(smith(tmp_path, 2), dice, [], set(), set())
    for _ in range(3):
        story.add()
    for _ in range(7):
        dice.choice([story.add, story.by_position, story.by_position, story.by_value])()
    table = registered(tmp_path, story.made)
    report = table.check(repair=True)
    assert not any(finding.repairable for finding in report.findings)
    assert table.check(repair=True).repaired == ()
    now = set(ids(table))
    assert story.meant <= now <= story.visible
    if report.clean:
        for _, value, numbers in story.files:
            assert set(ids(table, f"p = {value!r}")) >= now & set(numbers)
