"""A small tracked table, verbs to run in a transaction on it, and what it holds afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from holdfast import DeltaTable
from holdfast.verbs.commit.transaction import Transaction

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("p", pa.string())])

IDS = ["_row_id", "_row_commit_version"]

fresh = count()

Verb = Callable[[Any], Any]  # on a table as on a transaction


def rows_of(keys: Any, v: int = 0) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v, "p": "ab"[k % 2]} for k in keys], COLUMNS)


def tracked(files: int = 2, *, partitioned: bool = False, path: str = "", **properties: str) -> DeltaTable:
    path = path or f"memory://transactions/{next(fresh)}"
    builder = DeltaTable.create(None).location(path).addColumns(COLUMNS)
    builder = builder.partitionedBy("p") if partitioned else builder
    for name, value in properties.items():
        builder = builder.property(f"delta.{name}", value)
    table = builder.execute()
    for n in range(files):
        table.append(rows_of(range(n * 10, (n + 1) * 10)))
    return table.alias("t")


def opened_again(table: DeltaTable) -> DeltaTable:
    return DeltaTable.forPath(None, table.handle.newest().snapshot.location.url)


def found_in(table: DeltaTable) -> dict[int, tuple[tuple[Any, ...], int]]:
    """By row id: the values and the version."""
    found = table.toArrow(metadata=IDS).to_pylist()
    made = {row["_row_id"]: ((row["k"], row["v"], row["p"]), row["_row_commit_version"]) for row in found}
    assert len(made) == len(found)
    return made


def values_in(table: DeltaTable | Transaction) -> list[tuple[Any, ...]]:
    return sorted((row["k"], row["v"], row["p"]) for row in table.toArrow().to_pylist())


def net_of(before: dict[int, Any], after: dict[int, Any], version: int) -> list[tuple[str, Any]]:
    """What a change feed must tell."""
    told = [("delete", row) for id_, (row, _) in before.items() if id_ not in after]
    told += [("insert", row) for id_, (row, _) in after.items() if id_ not in before]
    changed = [id_ for id_, (_, changed) in after.items() if id_ in before and changed == version]
    told += [("update_preimage", before[id_][0]) for id_ in changed]
    return sorted([*told, *(("update_postimage", after[id_][0]) for id_ in changed)])


def told_at(rows: pa.Table) -> list[tuple[str, Any]]:
    return sorted((row["_change_type"], (row["k"], row["v"], row["p"])) for row in rows.to_pylist())


def run_all(table: DeltaTable, *verbs: Verb) -> None:
    with table.transaction() as t:
        for run in verbs:
            run(t)


def append(keys: Sequence[int]) -> Verb:
    return lambda t: t.append(rows_of(keys, 7))


def delete(condition: str, mode: str | None = None) -> Verb:
    return lambda t: t.delete(condition, mode=mode)


def update(condition: str, sets: dict[str, str], mode: str | None = None) -> Verb:
    return lambda t: t.update(condition, sets, mode=mode)


def merge(keys: Sequence[int], v: int, mode: str | None = None, *, drops: bool = False) -> Verb:
    def run(t: Any) -> Any:
        begun = t.merge(rows_of(keys, v), "t.k = s.k", mode=mode)
        begun = begun.whenMatchedDelete("s.k % 3 = 0") if drops else begun
        return begun.whenMatchedUpdate(set={"v": "t.v + s.v"}).whenNotMatchedInsertAll().execute()

    return run


CONDITIONS = ["k < 5", "k % 4 = 1", "v > 0", "k >= 20", "p = 'a'", "v = 7 AND k % 2 = 0", "k = 77", "k IN (3, 13, 30)"]

SETS = [{"v": "v + 1"}, {"v": "k"}, {"p": "CASE p WHEN 'a' THEN 'b' ELSE 'a' END", "v": "v * 2 + 1"}]

KEYS = st.lists(st.integers(0, 35), min_size=1, max_size=6, unique=True)


def verbs(modes: Sequence[str | None]) -> st.SearchStrategy[Verb]:
    conditions, mode = st.sampled_from(CONDITIONS), st.sampled_from(modes)
    return st.one_of(
        st.builds(append, st.lists(st.integers(20, 60), max_size=4)),
        st.builds(delete, conditions, mode),
        st.builds(update, conditions, st.sampled_from(SETS), mode),
        st.builds(
            lambda keys, v, m, drops: merge(keys, v, m, drops=drops), KEYS, st.integers(1, 9), mode, st.booleans()
        ),
    )
