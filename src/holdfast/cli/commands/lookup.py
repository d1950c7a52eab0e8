"""`holdfast lookup`: rows by the values of columns, through an index where there is one, without Spark."""

from __future__ import annotations

import click
import pyarrow as pa

import holdfast
from holdfast.cli.command import at_option, columns_option, limit_options, most, on_table, pairs, version_option
from holdfast.cli.output import Answer
from holdfast.cli.rows import IDS, print_rows
from holdfast.cli.target import Target, columns_of, number_or_name
from holdfast.errors import Invalid
from holdfast.plan.scan.request import known_columns, refuse_unknown
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import Field, Struct
from holdfast.terminal import phase

_RANGE = ".."


@click.command("lookup")
@on_table()
@click.argument("keys", nargs=-1, required=True, callback=pairs, metavar="COLUMN=VALUE...")
@columns_option
@click.option("--ids", is_flag=True, help="Add the row's id and the version of its content.")
@version_option
@at_option
@limit_options("rows")
def command(
    target: Target,
    answer: Answer,
    keys: tuple[tuple[str, str], ...],
    columns: tuple[str, ...],
    ids: bool,
    version: str | None,
    at: str | None,
    limit: int | None,
    everything: bool,
) -> None:
    """Rows by the values of columns, through an index if there is one.

    A value is text as people write it; several are separated by commas, the ends of a range by two dots, either of
    which may be left out.

    \b
    holdfast lookup orders id=42
    holdfast lookup orders id=1,2,3 day=2024-05-01..2024-05-31
    """
    table = target.table()
    schema = known_columns(target.delta(version, at).snapshot, ())
    refuse_unknown([name for name, _ in keys], schema)
    values = {name: _parsed(schema, name, text) for name, text in keys}
    with phase("looking rows up"):
        rows = table.lookup(
            values,
            columns=columns_of(columns),
            version=number_or_name(version),
            timestamp=at,
            metadata=IDS if ids else (),
        )
    print_rows(answer, rows, limit=most(answer, limit, everything))


def _parsed(schema: Struct, name: str, text: str) -> object:
    field = schema.find(name)
    assert field is not None, "names that are no columns are refused"
    if _RANGE in text:
        low, _, high = text.partition(_RANGE)
        ends = [_value(field, end) if end else None for end in (low, high)]
        return holdfast.between(*ends)
    values = [_value(field, part) for part in text.split(",")]
    return values if len(values) > 1 else values[0]


def _value(field: Field, text: str) -> object:
    """A text converted to the type of a column."""
    type_ = arrow_type(field.type)
    try:
        return pa.array([text]).cast(type_)[0].as_py()
    except (pa.ArrowException, NotImplementedError) as error:
        raise Invalid(f"{field.name} is {type_}, and {text!r} is none: write a value of that type") from error
