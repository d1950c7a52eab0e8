"""The table that the examples in the documentation read, laid down by hand so that it is the same on every day."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from tests.support.tablesmith import Tablesmith

NOON_MS = 1_714_564_800_000  # 2024-05-01 12:00 UTC


def make_warehouse(root: Path) -> None:
    """Five versions of `warehouse/orders`: create, write, write, update, delete."""
    table = Tablesmith(
        root / "warehouse" / "orders",
        schema=[("order", "long"), ("customer", "string"), ("cents", "long"), ("day", "date")],
        partition_by=["day"],
        start_ms=NOON_MS,
    )
    table.append([_order(1, "Ada", 1200, 1), _order(2, "Ben", 850, 1), _order(3, "Cleo", 4100, 1)])
    table.append([_order(4, "Ada", 990, 2), _order(5, "Dov", 2500, 2), _order(6, "Ben", 7300, 2)])
    table.update(0, {1: {"cents": 900}})
    table.hide(1, [1])


def _order(number: int, customer: str, cents: int, day: int) -> dict[str, Any]:
    return {"order": number, "customer": customer, "cents": cents, "day": datetime.date(2024, 5, day)}
