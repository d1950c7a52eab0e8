"""Where the records of some bytes begin: each where the one before ends.

Going from record to record costs Python some steps per field. But records of a file look alike: their first text, a
path, begins with the same bytes in all of them. Wherever these stand a record is guessed to begin shortly before, all
guesses are walked at once, and those that lead from one to the next are the records.

1. What is given out is a chain from the first byte on: a guess counts only if a record ends where it begins.
2. A wrong guess, or one that nobody had, costs time and nothing else: that record is walked by itself.
3. There are no more guesses than records could be in the bytes, and none where lists lie within lists, so that guesses
   which overlap cost little.
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

_SIGN_BYTES = 8  # of the first text, by which records are known
_LEAD_FIELDS = 64  # before that text, at most
_NUMBER_BACKWARDS = rb"[\x00-\x7f][\x80-\xff]{0,9}"


def read_records(record: Record, window: AvroWindow, *, cut: bool) -> tuple[pa.StructArray, Places]:
    """Records, where they begin, and where the last ends; a window that is cut may end within a record."""
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
    """Where records begin, one behind the other, and where the last ends."""
    try:
        known = dict(zip(guesses.tolist(), record.after(window.loosely(), guesses).tolist(), strict=True))
    except Malformed:
        known = {}
    data, size = window.data, window.size
    places = [0]
    at = 0
    try:
        while at < size:
            after = known.get(at)
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
    if _list_levels(record) > 1 or not lead.reaches_text(record) or len(lead.steps) > _LEAD_FIELDS:
        return none
    at = 0
    try:
        for step in lead.steps:
            at = step(window.data, at)
        length, start = number_at(window.data, at)
    except (IndexError, Malformed):
        return none
    sign = window.data[start : start + min(length, _SIGN_BYTES)]
    if len(sign) < _SIGN_BYTES:
        return none
    back = re.compile(re.escape(sign[::-1]) + _NUMBER_BACKWARDS + b"".join(reversed(lead.backwards)), re.DOTALL)
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
    """What stands before the first text of a record: how to step over it, and patterns of it read backwards."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.backwards: list[bytes] = []

    def reaches_text(self, layout: Layout) -> bool:
        """Take a value; whether that came to a text."""
        match layout:
            case Blobs():
                return True
            case Record():
                return any(self.reaches_text(member.layout) for member in layout.members)
            case Nullable(inner=Record()):
                self._take(lambda _, at: at + 1, re.escape(bytes([layout.there])))
                return self.reaches_text(layout.inner)
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
            there, absent = (re.escape(bytes([branch])) for branch in (layout.there, layout.absent))
            # What a byte of choice follows has ended: no number goes on there. Atomic, so that no schema is slow.
            return b"(?>" + _backwards(layout.inner) + there + rb"(?![\x80-\xff])|" + absent + b")"
        case _:
            return b"(?!)"  # a list has no pattern
