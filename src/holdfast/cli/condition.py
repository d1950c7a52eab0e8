"""Parses a condition given as SQL text, without Spark. Not in `rows`, because importing the parser is slow."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import parse_one
from sqlglot.errors import SqlglotError

from holdfast.errors import Invalid
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.request import Condition, known_columns, refuse_unknown
from holdfast.predicate.parse import parse, unknown_names


def parse_condition(text: str, snapshot: Snapshot, metadata: Sequence[str]) -> Condition:
    refuse_unreadable(text)
    columns = known_columns(snapshot, metadata)
    refuse_unknown(unknown_names(text, columns), columns)
    return Condition(text, text, parse(text, columns, zone="UTC"))


def refuse_unreadable(text: str) -> None:
    try:
        parse_one(text, dialect="spark")
    except SqlglotError as error:
        raise Invalid(
            f'{text!r} is no condition: write it as in SQL, such as "cents > 1000 AND note IS NULL"'
        ) from error
