"""Parses timestamps as users write them."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdfast.errors import Invalid


def moment_ms(moment: str | datetime.datetime | datetime.date, *, zone: str) -> int:
    """Milliseconds since 1970 UTC; text and datetimes that name no zone are in `zone`."""
    if isinstance(moment, str):
        parsed = _parsed(moment.strip())
    elif isinstance(moment, datetime.datetime):
        parsed = moment
    elif isinstance(moment, datetime.date):
        parsed = datetime.datetime.combine(moment, datetime.time())
    else:
        raise Invalid(f"a timestamp is text or a datetime, not {type(moment).__name__}")
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=_zone(zone))
    since = parsed - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return since // datetime.timedelta(milliseconds=1)


def _parsed(text: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(
            f"{text!r} is no timestamp: write it as 2024-05-01, 2024-05-01 12:30:00 or 2024-05-01T12:30:00Z"
        ) from error


def _zone(name: str) -> datetime.tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return datetime.datetime.fromisoformat(f"2000-01-01T00:00:00{_offset(name)}").tzinfo or datetime.UTC


def _offset(name: str) -> str:
    """The offset in a zone that Spark spells `+02:00`, `GMT+2` or `UTC-05:30`."""
    text = name.removeprefix("UTC").removeprefix("GMT") or "+00:00"
    sign, rest = text[0], text[1:]
    hours, _, minutes = rest.partition(":")
    if sign not in "+-" or not hours.isdigit() or not (minutes or "0").isdigit():
        raise Invalid(f"the session's time zone {name!r} is not known here; give the timestamp with an offset")
    return f"{sign}{int(hours):02d}:{int(minutes or 0):02d}"
