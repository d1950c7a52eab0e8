"""Holdfast: row identity for lakehouse tables. Files churn, rows hold fast.

Names are loaded when first used, so that what needs only the log loads neither Spark nor an extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ConcurrentWrite": "holdfast.errors",
    "Conflict": "holdfast.errors",
    "Damaged": "holdfast.errors",
    "DeltaTable": "holdfast.table.delta",
    "IcebergTable": "holdfast.table.iceberg",
    "Invalid": "holdfast.errors",
    "Lease": "holdfast.verbs.maintain.lease",
    "LimitReached": "holdfast.errors",
    "MissingFile": "holdfast.errors",
    "NoRowIdentity": "holdfast.errors",
    "NotATable": "holdfast.errors",
    "OutcomeUnknown": "holdfast.errors",
    "Retry": "holdfast.verbs.commit.retry",
    "TableError": "holdfast.errors",
    "Unavailable": "holdfast.errors",
    "UnknownColumn": "holdfast.errors",
    "UnknownRow": "holdfast.errors",
    "UnknownVersion": "holdfast.errors",
    "Unsupported": "holdfast.errors",
    "between": "holdfast.index.keyed",
    "disable": "holdfast._dropin.enabling",
    "enable": "holdfast._dropin.enabling",
    "read": "holdfast.table.delta",
    "register": "holdfast.verbs.stream.source",
    "session": "holdfast.verbs.stream.source",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"holdfast has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
