"""Random histories of tables, and the contents of a state in a form that can be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from hypothesis import strategies as st

from holdfast.env import Env, fixed
from holdfast.formats.delta.log.tombstones import tombstones
from holdfast.formats.delta.state import DeltaState, load
from holdfast.schema.types import Primitive, leaves
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from tests.support.smith_log import domain
from tests.support.tablesmith import Tablesmith

NOW_MS = 1_700_000_500_000  # shortly after the smith's clock starts
STATS = {
    "json": {},
    "struct": {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"},
    "both": {"delta.checkpoint.writeStatsAsStruct": "true"},
}
_INNER = {"type": "struct", "fields": [{"name": "a.b", "type": "integer", "nullable": True, "metadata": {}}]}
SCHEMA: list[tuple[str, Any]] = [
    ("id", "long"),
    ("d", "double"),
    ("dec", "decimal(20,3)"),
    ("day", "date"),
    ("ts", "timestamp"),
    ("ntz", "timestamp_ntz"),
    ("s", _INNER),
    ("list", {"type": "array", "elementType": "string", "containsNull": True}),
    ("text", "string"),
    ("part", "string"),
]
_TEXTS = ["", "plain", 'quo"te', "back\\slash", "line\nbreak", "tab\t\x01", "ünï 😀", "x" * 40]
_NOT_OF_REMOVED = ["tags", "clustering_provider", "modified_ms"]  # what a checkpoint does not keep of a removal
VOID = Primitive("void")  # has no statistics
PARTS = [None, "a", "b c", "ü/%=", 'q"']


def row(n: int) -> dict[str, Any]:
    """A row that differs from its neighbours in every column."""
    moment = datetime(1969, 12, 31, 23, 59, 58, 999_999) + timedelta(seconds=n, microseconds=n * 7)
    return {
        "id": (-1) ** n * (2**62 + n),
        "d": [0.1 * n, -0.0, 1e300, float("inf")][n % 4],
        "dec": Decimal(f"{-n}.125"),
        "day": date(1969, 12, 31) + timedelta(days=n),
        "ts": moment.replace(tzinfo=UTC),
        "ntz": moment,
        "s": {"a.b": n} if n % 2 else None,
        "list": [str(n), None] if n % 3 else None,
        "text": None if n % 5 == 0 else _TEXTS[n % len(_TEXTS)],
        "part": PARTS[n % len(PARTS)],
    }


@dataclass(frozen=True)
class Step:
    """One commit to make; what cannot be done to a table as it is becomes an append."""

    verb: str
    number: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["append", "append", "hide", "inline", "remove", "update", "rewrite", "txn", "domain", "drop"]),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=8,
)
TABLES = st.fixed_dictionaries(
    {
        "partition_by": st.sampled_from([(), ("part",), ("day", "part"), ("ts",)]),
        "column_mapping": st.sampled_from([None, "name"]),
        "row_tracking": st.booleans(),
        "in_commit_timestamps": st.booleans(),
    }
)


def smith_of(
    location: Location, steps: list[Step], *, properties: dict[str, str] | None = None, **table: Any
) -> Tablesmith:
    """The table these steps make."""
    features = ["v2Checkpoint", "domainMetadata"]
    smith = Tablesmith(location, schema=SCHEMA, features=features, properties=properties, **table)
    for step in steps:
        take(smith, step)
    return smith


def take(smith: Tablesmith, step: Step) -> None:
    files = smith.live()
    file = step.number % len(files) if files else 0
    open_rows = [r["_row_index"] for r in smith.rows() if files and r["_file"] == _key(files[file])]
    match step.verb:
        case "hide" | "inline" if open_rows:
            smith.hide(file, open_rows[:1], storage="i" if step.verb == "inline" else ["u", "up", "p"][step.number % 3])
        case "remove" if files:
            smith.remove(file)
        case "update" if open_rows and smith.row_tracking:
            smith.update(file, {open_rows[0]: {"id": step.number}})
        case "rewrite" if files:
            smith.rewrite()
        case "txn":
            last = {"lastUpdated": NOW_MS} if step.number % 2 else {}
            smith.commit([{"txn": {"appId": f"app{step.number % 3}", "version": step.number, **last}}])
        case "domain":
            smith.commit([domain(f"user.d{step.number % 3}", {"n": step.number})])
        case "drop":
            smith.commit([domain(f"user.d{step.number % 3}", {}, removed=True)])
        case _:
            stats: bool | str = [True, True, "wide", "count", smith.row_tracking][step.number % 5]
            smith.append([row(step.number + i) for i in range(4)], files=2, stats=stats)


def _key(add: dict[str, Any]) -> str:
    return unquote(add["path"])


def store() -> MemoryStore:
    return MemoryStore(env=fixed())


def copies(original: ObjectStore) -> Callable[[], MemoryStore]:
    """Stores with what is in one now, each time equal to the last."""
    held = [(meta.key, original.get(meta.key)) for meta in original.list_all("")]

    def make() -> MemoryStore:
        fresh = store()
        for key, data in held:
            fresh.put(key, data)
        return fresh

    return make


def at(where: ObjectStore) -> Location:
    return Location(where, "t")


def env() -> Env:
    return fixed(start_ms=NOW_MS)


def loaded(location: Location, version: int | None = None) -> DeltaState:
    """A state that was read without a detour."""
    state = load(location, version=version)
    assert state.snapshot.notes == ()
    return state


def facts(state: DeltaState, *, stats: bool = True) -> dict[str, Any]:
    """Everything a state says; equal for equal states, however they were read."""
    return {
        "version": state.version,
        "timestamp": state.snapshot.timestamp_ms,
        "protocol": state.protocol,
        "metadata": state.metadata,
        "txns": dict(state.txns),
        "domains": dict(state.domains),
        "identity": state.snapshot.identity,
        "files": _files(state, stats=stats),
        "removed": sorted(repr(_by_name(r)) for r in tombstones(state).drop_columns(_NOT_OF_REMOVED).to_pylist()),
    }


def _files(state: DeltaState, *, stats: bool) -> list[str]:
    files = state.snapshot.files
    rows = [_by_name(r) for r in files.table.to_pylist()]
    if stats:
        paths = {tuple(f.physical_name for f in path): t for path, t in leaves(state.snapshot.schema) if t != VOID}
        stats = files.stats(paths)
        columns: dict[str, list[Any]] = {"records": stats.num_records.to_pylist(), "tight": stats.tight.to_pylist()}
        for leaf, bounds in stats.bounds.items():
            columns[f"{leaf}"] = list(
                zip(_listed(bounds.low), _listed(bounds.high), bounds.null_count.to_pylist(), strict=True)
            )
        for n, r in enumerate(rows):
            r.update({name: values[n] for name, values in columns.items()})
    return sorted(repr(r) for r in rows)


def _listed(values: pa.Array) -> list[Any]:
    """Values as a list; moments as numbers, because Python's end with the year 9999."""
    items: list[Any] = (values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_pylist()
    return items


def _by_name(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose maps are in the order of their keys."""
    return {k: sorted(v, key=repr) if isinstance(v, list) else v for k, v in row.items()}
