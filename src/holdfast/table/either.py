"""Iceberg tables, for what takes tables of either format.

1. Without pyiceberg everything about Delta tables works: no table is of the other kind then.
"""

from __future__ import annotations

from holdfast.errors import Unsupported

try:
    from holdfast.formats.iceberg.state import IcebergState
    from holdfast.table.iceberg import IcebergTable
except Unsupported:  # pyiceberg is missing

    class _NoTable:
        """What nothing is an instance of."""

    IcebergState = IcebergTable = _NoTable  # type: ignore[misc, assignment]

__all__ = ["IcebergState", "IcebergTable"]
