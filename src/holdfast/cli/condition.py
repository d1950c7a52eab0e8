"""A condition given as SQL text, understood without Spark. Apart from `rows`, because the parser takes its time."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import parse_one
from sqlglot.errors import SqlglotError

from holdfast.errors import Invalid
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.request import Condition, known_columns, refuse_unknown
from holdfast.predicate.parse import parse, unknown_names


def understood(text: str, snapshot: Snapshot, metadata: Sequence[str]) -> Condition:
    """A condition on columns that the table has."""
    refuse_unreadable(text)
    columns = known_columns(snapshot, metadata)
    refuse_unknown(unknown_names(text, columns), columns)
    return Condition(text, text, parse(text, columns, zone="UTC"))


def refuse_unreadable(text: str) -> None:
    """Refuse what is not SQL, which nobody can evaluate."""
    try:
        parse_one(text, dialect="spark")
    except SqlglotError as error:
        raise Invalid(
            f'{text!r} is no condition: write it as in SQL, such as "cents > 1000 AND note IS NULL"'
        ) from error
