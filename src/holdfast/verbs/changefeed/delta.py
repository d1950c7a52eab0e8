"""Answers change queries of a Delta table, and reads its change data feed.

1. Versions and timestamps are inclusive at both ends, as in delta-spark.
2. A resume token continues exactly after the changes it came with, whether or not anything was committed since.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import msgspec

from holdfast.errors import Invalid, UnknownVersion
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.history.commit_range import Moment, Point, read_range, versions_between
from holdfast.formats.delta.state import DeltaState, load
from holdfast.plan.changefeed.query import ChangeQuery, ChangesPlan, check_query, no_changes
from holdfast.storage.error_mapping import MALFORMED_JSON
from holdfast.verbs.changefeed.change_set import ChangeSet, When
from holdfast.verbs.changefeed.query import planned
from holdfast.verbs.open.engine import AnyEngine
from holdfast.verbs.open.moment import moment_ms

_TOKEN = "hf1."


class _Token(msgspec.Struct, frozen=True):
    """Where to go on, and in which table."""

    table: str
    version: int


@dataclass(frozen=True)
class DeltaChangeSource:
    """A Delta table that changes are of."""

    state: DeltaState

    @property
    def table_id(self) -> str:
        return self.state.table_id

    @property
    def location(self) -> str:
        return self.state.snapshot.location.url

    def token(self, version: int) -> str:
        encoded = base64.urlsafe_b64encode(msgspec.json.encode(_Token(self.table_id, version)))
        return _TOKEN + encoded.decode().rstrip("=")

    def between(self, first: int, last: int, query: ChangeQuery) -> ChangesPlan:
        state = self.state
        if last < first:
            check_query(query, state.snapshot.schema)
            return no_changes(state.snapshot, query)
        before = _before(state, first, is_needed=not query.by_commit)
        return planned(read_range(before, _at(state, last), start=first), query, load_hidden)


def changes(
    state: DeltaState,
    start: When | None,
    end: When | None,
    query: ChangeQuery,
    resume: str | None,
    *,
    zone: str,
    engine: AnyEngine,
) -> ChangeSet:
    """What commits from `start`, or from a token on, did to rows; times that name no zone are in `zone`."""
    first, last = _versions(state, start, end, resume, zone)
    source = DeltaChangeSource(state)
    return ChangeSet(first, last, query.kind.value, source.between(first, last, query), engine, source, query)


def change_feed(state: DeltaState, start: When, end: When | None, *, zone: str, engine: AnyEngine) -> ChangeSet:
    """The change data feed of some commits."""
    first, last = _versions(state, start, end, None, zone)
    if first > state.version:
        raise UnknownVersion(f"the newest version is {state.version}, so none is from {first} on", version=first)
    stretch = read_range(_before(state, first, is_needed=False), _at(state, last), start=first)
    return ChangeSet(first, last, "feed", planned(stretch, None, load_hidden), engine, DeltaChangeSource(state))


def _versions(
    state: DeltaState, start: When | None, end: When | None, resume: str | None, zone: str
) -> tuple[int, int]:
    if (start is None) == (resume is None):
        raise Invalid("say where changes begin: with a version or timestamp, or with resume= and a token")
    location = state.snapshot.location
    first: Point = _resumed(resume, state) if resume is not None else _point(start, zone)
    last = None if end is None else _point(end, zone)
    return versions_between(location, state.version, first, last)


def _point(when: When | None, zone: str) -> Point:
    if isinstance(when, bool) or when is None:
        raise Invalid(f"a version is a whole number and a timestamp text or a datetime, not {when!r}")
    return when if isinstance(when, int) else Moment(moment_ms(when, zone=zone))


def _resumed(token: str, state: DeltaState) -> int:
    try:
        text = token.removeprefix(_TOKEN)
        decoded = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except MALFORMED_JSON as error:
        raise Invalid(f"{token!r} is no resume token: take it from a change set's resumeToken") from error
    if decoded.table != state.table_id:
        raise Invalid(
            f"the resume token is of another table than the one at {state.snapshot.location.url}, or the table was "
            "replaced since: begin again with a version"
        )
    return decoded.version


def _before(state: DeltaState, first: int, *, is_needed: bool) -> DeltaState | None:
    """The table before a version; None where there was none, or where it can be done without and is gone."""
    if first == 0:
        return None
    try:
        return _at(state, first - 1)
    except UnknownVersion as error:
        if not is_needed:
            return None
        raise UnknownVersion(
            f"a net change from version {first} on needs version {first - 1}: {error}", version=first - 1
        ) from error


def _at(state: DeltaState, version: int) -> DeltaState:
    return state if state.version == version else load(state.snapshot.location, version=version)
