"""The engines of `commits.py`, each in a process of its own: the first argument says which.

Both commit files that are staged already: one `add` per commit, of a file nobody looks at, so what is timed is the
commit and what follows it (checksum, checkpoint, clean-up). Imports stand inside the functions, because a process must
load its own engine only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import perf_counter, time
from typing import Any

from engine import serve

ROWS = 1_000  # per file


def holdfast() -> dict[str, Callable[..., Any]]:
    import pyarrow as pa

    from holdfast import DeltaTable
    from holdfast.env import system
    from holdfast.formats.delta.state import load, refresh
    from holdfast.model.mutation import STAGED
    from holdfast.storage.open import open_location
    from holdfast.verbs.dml.write_mutation import CommitOptions, appended
    from holdfast.verbs.open.delta import open_delta

    held: dict[str, Any] = {}

    def create(path: str, interval: int) -> None:
        builder = DeltaTable.create().location(path).addColumn("id", "long").addColumn("amount", "double")
        builder.property("delta.checkpointInterval", str(interval)).execute()
        held["state"] = load(open_location(path))

    def commit(first: int, count: int) -> list[float]:
        taken = []
        env = system()
        for number in range(first, first + count):
            staged = pa.Table.from_pylist([_staged(number)], schema=STAGED)
            start = perf_counter()
            state = held["state"] = refresh(held["state"])
            open_delta(state).commit(appended(state.snapshot, staged, CommitOptions()), env)
            taken.append(perf_counter() - start)
        return taken

    def check() -> list[int]:
        state = refresh(held["state"])
        return [state.version, len(state.snapshot.files)]

    return {"create": create, "commit": commit, "check": check}


def deltalake() -> dict[str, Callable[..., Any]]:
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

    held: dict[str, Any] = {}

    def create(path: str, interval: int) -> None:
        schema = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
        held["table"] = DeltaTable.create(path, schema, configuration={"delta.checkpointInterval": str(interval)})
        held["schema"] = held["table"].schema()

    def commit(first: int, count: int) -> list[float]:
        taken = []
        table = held["table"]
        for number in range(first, first + count):
            file = _staged(number)
            add = AddAction(file["key"], file["size"], {}, file["modified_ms"], True, file["stats"])
            start = perf_counter()
            table.update_incremental()
            table.create_write_transaction([add], "append", held["schema"])
            taken.append(perf_counter() - start)
        return taken

    def check() -> list[int]:
        held["table"].update_incremental()
        return [held["table"].version(), held["table"].get_add_actions().num_rows]

    return {"create": create, "commit": commit, "check": check}


def _staged(number: int) -> dict[str, Any]:
    """What a writer says of a file; nobody reads the file itself."""
    first = number * ROWS
    low, high = {"id": first, "amount": 0.25}, {"id": first + ROWS - 1, "amount": 99.75}
    stats = {"numRecords": ROWS, "minValues": low, "maxValues": high, "nullCount": {"id": 0, "amount": 0}}
    return {
        "key": f"part-00000-{number:032x}.c000.zstd.parquet",
        "size": 20_000 + number % 997,
        "modified_ms": int(time() * 1000),
        "partition_values": [],
        "num_records": ROWS,
        "stats": json.dumps(stats),
    }


if __name__ == "__main__":
    match sys.argv[1]:
        case "ours":
            serve(holdfast())
        case "deltalake":
            serve(deltalake())
