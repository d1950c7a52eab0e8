"""Formats numbers, sizes, times and file names for the report."""

from __future__ import annotations


def number(count: int) -> str:
    return f"{count:,}"


def many(count: int, noun: str) -> str:
    """`1 file`, `2,000 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """A number of bytes, with a unit."""
    scaled, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if scaled < 1000 or unit == "TB":
            break
        scaled /= 1000
    return f"{scaled:,.0f} {unit}" if unit == "B" or scaled >= 100 else f"{scaled:,.1f} {unit}"


def span(seconds: float) -> str:
    """A duration; in milliseconds below a second."""
    if seconds >= 1:
        return f"{seconds:,.1f} s"
    ms = seconds * 1000
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def file_name(key: str) -> str:
    """The first characters of a data file's name."""
    return key.rpartition("/")[2].removeprefix("part-00000-")[:8]
