"""Changes by brute force: whole states of a table, read version by version, compared row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from holdfast import DeltaTable

Row: TypeAlias = dict[str, Any]
State: TypeAlias = Mapping[int, tuple[int, str]]  # by id: the row's version, and the row as text
Event: TypeAlias = tuple[str, int, int | None, str]  # change type, commit version, row id, the row as text

GIVEN = ("_change_type", "_commit_version", "_commit_timestamp", "_row_id")


def text(row: Mapping[str, Any]) -> str:
    return repr([(name, value) for name, value in row.items() if name not in GIVEN])


def states(path: str) -> list[State]:
    """Every version of a table that tracks rows, read in full."""
    table = DeltaTable.forPath(None, path)
    return [state(table, version) for version in range(table.version + 1)]


def state(table: DeltaTable, version: int) -> State:
    rows = table.toArrow(version=version, metadata=["_row_id", "_row_commit_version"]).to_pylist()
    return {row.pop("_row_id"): (row.pop("_row_commit_version"), text(row)) for row in rows}


def events(changes: pa.Table) -> list[Event]:
    """What a change query gave, sorted."""
    return sorted(
        ((row["_change_type"], row["_commit_version"], row["_row_id"], text(row)) for row in changes.to_pylist()),
        key=repr,
    )


def net(before: State, after: State, version: int) -> list[Event]:
    """What one state became, told as the changes of a version."""
    made: list[Event] = []
    for row_id in before.keys() | after.keys():
        old, new = before.get(row_id), after.get(row_id)
        if old is None:
            assert new is not None
            made.append(("insert", version, row_id, new[1]))
        elif new is None:
            made.append(("delete", version, row_id, old[1]))
        elif old[0] != new[0]:
            made.append(("update_preimage", version, row_id, old[1]))
            made.append(("update_postimage", version, row_id, new[1]))
    return sorted(made, key=repr)


def full(known: list[State], start: int, end: int) -> list[Event]:
    """What each version did."""
    each = (net(known[v - 1] if v else {}, known[v], v) for v in range(start, end + 1))
    return sorted((event for several in each for event in several), key=repr)


def composed(several: Iterable[Event], version: int) -> list[Event]:
    """Changes of many versions as one per row; an update to equal values is none, and -0.0 equals 0.0."""
    first: dict[Any, str | None] = {}
    last: dict[Any, str | None] = {}
    order = {"delete": 0, "update_preimage": 0, "insert": 1, "update_postimage": 1}
    for kind, _, row_id, row in sorted(several, key=lambda e: (e[1], order[e[0]])):
        before = row if kind in ("delete", "update_preimage") else None
        first.setdefault(row_id, before)
        last[row_id] = None if kind in ("delete", "update_preimage") else row
    made: list[Event] = []
    for row_id, old in first.items():
        new = last[row_id]
        if old is None and new is not None:
            made.append(("insert", version, row_id, new))
        elif old is not None and new is None:
            made.append(("delete", version, row_id, old))
        elif old is not None and new is not None and old.replace("-0.0", "0.0") != new.replace("-0.0", "0.0"):
            made += [("update_preimage", version, row_id, old), ("update_postimage", version, row_id, new)]
    return sorted(made, key=repr)


def applied(before: State, several: Iterable[Event]) -> dict[int | None, str]:
    """The rows of a state once net changes were made to it."""
    rows: dict[int | None, str] = {row_id: row for row_id, (_, row) in before.items()}
    for kind, _, row_id, row in several:
        if kind == "delete":
            del rows[row_id]
        elif kind != "update_preimage":
            rows[row_id] = row
    return rows
