"""The engines of `open.py`, each in a process of its own: the first argument says which.

Imports stand inside the functions, because a process must load its own engine only. Every call gives the seconds it
took and the number of files it saw; counting is not part of the peer's time, because it has no way of its own to count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from engine import serve


def holdfast() -> dict[str, Callable[..., Any]]:
    """Open: load the log and count the files. List: paths and sizes. Stats: bounds of one column of every file."""
    from holdfast.formats.delta.state import load, refresh
    from holdfast.schema.types import LONG
    from holdfast.storage.open import open_location

    held: dict[str, Any] = {}

    def open_(path: str) -> dict[str, float]:
        start = perf_counter()
        held["state"] = load(open_location(path))
        files = len(held["state"].snapshot.files)
        return {"seconds": perf_counter() - start, "files": files}

    def list_() -> dict[str, float]:
        start = perf_counter()
        table = held["state"].snapshot.files.table.select(["path", "size"])
        return {"seconds": perf_counter() - start, "files": table.num_rows}

    def stats() -> dict[str, float]:
        start = perf_counter()
        bounds = held["state"].snapshot.files.stats({("id",): LONG}).bounds[("id",)]
        return {"seconds": perf_counter() - start, "files": len(bounds.low)}

    def refresh_() -> dict[str, float]:
        start = perf_counter()
        held["state"] = refresh(held["state"])
        files = len(held["state"].snapshot.files)
        return {"seconds": perf_counter() - start, "files": files}

    return {"open": open_, "list": list_, "stats": stats, "refresh": refresh_}


def deltalake() -> dict[str, Callable[..., Any]]:
    """Open: make the table. List and stats: its add actions as Arrow, which hold both."""
    from deltalake import DeltaTable

    held: dict[str, Any] = {}

    def open_(path: str) -> dict[str, float]:
        start = perf_counter()
        held["table"] = DeltaTable(path)
        return {"seconds": perf_counter() - start}

    def list_() -> dict[str, float]:
        start = perf_counter()
        actions = held["table"].get_add_actions(flatten=True)
        return {"seconds": perf_counter() - start, "files": actions.num_rows}

    def refresh_() -> dict[str, float]:
        start = perf_counter()
        held["table"].update_incremental()
        return {"seconds": perf_counter() - start}

    return {"open": open_, "list": list_, "stats": list_, "refresh": refresh_}


if __name__ == "__main__":
    match sys.argv[1]:
        case "ours":
            serve(holdfast())
        case "deltalake":
            serve(deltalake())
