"""Converts dates and timestamps that old Spark wrote in the Julian calendar to the Gregorian one.

Before version 3 Spark counted days before 1582-10-15 by the Julian calendar, and later versions do so on request.
The footer says which, by its Spark version or by a key. A date keeps its day and month.

1. Days from 1582-10-15 on, and instants from 1900 on, are never changed.
2. A day that only the Julian calendar has (1500-02-29) becomes the day that follows the day before it.
3. An instant written in UTC keeps its wall clock. In other zones Spark shifts instants before 1900 by a table of its
   own, which differs from a machine's time zone database in some zones: such instants are refused.
4. A timestamp without a zone was never shifted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.errors import Unsupported
from holdfast.storage.arrays import truths

FIRST_GREGORIAN_DAY = -141427  # 1582-10-15, in days from 1970
YEAR_1900 = -2208988800000000  # in microseconds from 1970
_DAY = 86_400_000_000
_UTC = frozenset({"UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT", "UCT", "Etc/UCT", "Zulu", "Universal", "Greenwich"})


@dataclass(frozen=True, slots=True)
class Calendar:
    """Which values of a file are in the old calendar, and the zone its timestamps were written in."""

    dates: bool = False  # also timestamps stored as 64-bit integers
    int96: bool = False
    zone: str | None = None


def calendar_of(footer: Mapping[bytes, bytes] | None) -> Calendar:
    """The calendar of a file, from the key-value pairs of its footer."""
    pairs = footer or {}
    spark_version = pairs.get(b"org.apache.spark.version", b"").decode()
    version = tuple(int(part) for part in spark_version.split(".")[:2] if part.isdigit())
    zone = pairs.get(b"org.apache.spark.timeZone")
    return Calendar(
        dates=b"org.apache.spark.legacyDateTime" in pairs or (bool(version) and version < (3, 0)),
        int96=b"org.apache.spark.legacyINT96" in pairs or (bool(version) and version < (3, 1)),
        zone=None if zone is None else zone.decode(),
    )


def rebased_dates(days: pa.Array) -> pa.Array:
    """Julian dates as Gregorian ones."""
    numbers = days.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not (numbers < FIRST_GREGORIAN_DAY).any():
        return days
    moved = pa.array(_gregorian(numbers).astype(np.int32), mask=truths(days.is_null()))
    return moved.cast(days.type)


def rebased_micros(micros: pa.Array, zone: str | None, *, where: str) -> pa.Array:
    """Julian instants as Gregorian ones, both as 64-bit microseconds; `where` names them in errors."""
    numbers = micros.fill_null(0).to_numpy(zero_copy_only=False)
    if not (numbers < YEAR_1900).any():
        return micros
    if zone not in _UTC:
        written = "does not say in which zone" if zone is None else f"was written in the zone {zone}"
        raise Unsupported(
            f"{where} holds timestamps before 1900 in the calendar of old Spark, and the file {written}; "
            "only Spark knows the offsets it used there, so read the table with Spark"
        )
    day = numbers // _DAY
    moved = _gregorian(day) * _DAY + (numbers - day * _DAY)
    return pa.array(moved, mask=truths(micros.is_null()))


def _gregorian(days: NDArray[np.int64]) -> NDArray[np.int64]:
    """Julian days as Gregorian ones; those from 1582-10-15 on stay."""
    shifted = days + 2472670  # from 1 March of the Julian year -4800
    year4 = (4 * shifted + 3) // 1461
    of_year = shifted - 1461 * year4 // 4
    month = (5 * of_year + 2) // 153  # 0 is March
    of_month = of_year - (153 * month + 2) // 5
    year = year4 - 4800  # begins in March
    era = year // 400
    of_era = year - era * 400
    start = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 - 719468
    moved = start + (153 * month + 2) // 5 + of_month
    return np.where(days < FIRST_GREGORIAN_DAY, moved, days)
