"""Finds where the records of an Avro block begin: each begins where the previous one ends.

Walking from record to record costs Python some steps per field. But the records of a manifest look alike: their first
string, a path, begins with the same bytes in all of them. So each occurrence of these bytes gives a guess of where a
record begins, all guesses are decoded at once, and those that form a chain are the records.

1. The result is a chain from the first byte on: a guess counts only if another record ends where it begins.
2. A wrong or missing guess costs time only: that record is walked by itself.
3. There are no more guesses than records could fit into the bytes, and none where lists lie within lists, so that
   overlapping guesses cost little.
"""

from __future__ import annotations

import re
from contextlib import suppress

import numpy as np
import pyarrow as pa

from holdfast.formats.iceberg.avro.layouts import (
    Blobs,
    Booleans,
    FixedWidth,
    Layout,
    Lists,
    Nullable,
    Record,
    Step,
    WholeNumbers,
)
from holdfast.formats.iceberg.avro.window import AvroWindow, Malformed, Places, number_at

_PREFIX_BYTES = 8  # of the first string, by which records are recognized
_LEADING_FIELDS = 64  # before that string, at most
_NUMBER_BACKWARDS = rb"[\x00-\x7f][\x80-\xff]{0,9}"


def read_records(record: Record, window: AvroWindow, *, cut: bool) -> tuple[pa.StructArray, Places]:
    """The records, and where they begin and the last ends; a window that is `cut` may end within a record."""
    guesses = _guessed(record, window)
    if not cut and len(guesses):
        with suppress(Malformed, IndexError, pa.ArrowException):
            records, after = record.read(window, guesses)
            places = np.append(guesses, window.size)
            if not places[0] and (places[1:] == after).all():
                return records, places
    places = _chain(record, window, guesses, cut)
    records, after = record.read(window, places[:-1])
    if (places[1:] != after).any():
        raise Malformed("a record goes on beyond its block")
    return records, places


def _chain(record: Record, window: AvroWindow, guesses: Places, cut: bool) -> Places:
    """Where records begin, one after the other, and where the last ends."""
    try:
        ends = dict(zip(guesses.tolist(), record.after(window.loosely(), guesses).tolist(), strict=True))
    except Malformed:
        ends = {}
    data, size = window.data, window.size
    places, at = [0], 0
    try:
        while at < size:
            after = ends.get(at)
            if after is None or after > size:
                after = record.skip(data, at)
                if after > size:
                    raise IndexError(f"byte {after} is looked for where there are {size}")
            if after == at:
                raise Malformed("a record has no bytes")
            places.append(after)
            at = after
    except IndexError as error:
        if not cut or len(places) == 1:
            raise Malformed(f"a record goes on beyond its block ({error})") from error
    return np.array(places, np.int64)


def _guessed(record: Record, window: AvroWindow) -> Places:
    """Where records may begin."""
    none = np.zeros(0, np.int64)
    lead = _Lead()
    if _list_levels(record) > 1 or not lead.reaches_string(record) or len(lead.steps) > _LEADING_FIELDS:
        return none
    at = 0
    try:
        for step in lead.steps:
            at = step(window.data, at)
        length, start = number_at(window.data, at)
    except (IndexError, Malformed):
        return none
    prefix = window.data[start : start + min(length, _PREFIX_BYTES)]
    if len(prefix) < _PREFIX_BYTES:
        return none
    back = re.compile(re.escape(prefix[::-1]) + _NUMBER_BACKWARDS + b"".join(reversed(lead.backwards)), re.DOTALL)
    ends = [match.end() for match in back.finditer(window.data[::-1])]
    if len(ends) > window.size // record.least:
        return none
    return window.size - np.array(ends[::-1], np.int64)


def _list_levels(layout: Layout) -> int:
    """How deep lists lie within lists."""
    match layout:
        case Lists():
            return 1 + _list_levels(layout.inner)
        case Nullable():
            return _list_levels(layout.inner)
        case Record():
            return max((_list_levels(member.layout) for member in layout.members), default=0)
        case _:
            return 0


class _Lead:
    """The values before the first string of a record: how to skip them, and patterns that match them backwards."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.backwards: list[bytes] = []

    def reaches_string(self, layout: Layout) -> bool:
        """Adds the values of a layout up to its first string; whether it has one."""
        match layout:
            case Blobs():
                return True
            case Record():
                return any(self.reaches_string(member.layout) for member in layout.members)
            case Nullable(inner=Record()):
                self._take(lambda _, at: at + 1, re.escape(bytes([layout.value_branch])))
                return self.reaches_string(layout.inner)
            case _:
                self._take(layout.skip, _backwards(layout))
                return False

    def _take(self, step: Step, pattern: bytes) -> None:
        self.steps.append(step)
        self.backwards.append(pattern)


def _backwards(layout: Layout) -> bytes:
    match layout:
        case WholeNumbers():
            return _NUMBER_BACKWARDS
        case Booleans():
            return rb"[\x00\x01]"
        case FixedWidth():
            return b".{%d}" % layout.least
        case Nullable():
            value, null = (re.escape(bytes([branch])) for branch in (layout.value_branch, layout.null_branch))
            # A value ends before the branch byte, so no number continues there. Atomic, so that no schema is slow.
            return b"(?>" + _backwards(layout.inner) + value + rb"(?![\x80-\xff])|" + null + b")"
        case _:
            return b"(?!)"  # a list has no pattern
