"""Defines expressions that are bound to columns and run on Arrow batches, with constants and conversions.

1. Running one on a batch gives an array of its type, a value per row.
2. A row for which Spark would raise makes it raise Invalid, with the text of the whole expression.
3. A literal is converted exactly, as long as it is known to be one.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.engines.local.expressions.values import BOOLEAN, DOUBLE, INTEGER, VOID, converted, convertible
from holdfast.errors import Invalid, Unsupported
from holdfast.predicate.literal import Literal, LiteralKind, decimal_size
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import LONG, STRING, DataType, Decimal, Struct

_Run: TypeAlias = Callable[[pa.RecordBatch], pa.Array]


@dataclass(frozen=True, slots=True)
class Scope:
    """Columns that an expression may name, and under which names a batch has them: the prefix, then the column's."""

    schema: Struct
    alias: str | None = None
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Evaluable:
    """An expression that is ready to run: its type, and the columns of a batch that it reads."""

    type: DataType
    columns: frozenset[str]
    run: _Run
    text: str
    literal: Literal | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """The expression's value on each row; the batch has at least one column."""
        try:
            return self.run(batch)
        except (pa.ArrowInvalid, Invalid) as error:
            raise Invalid(f"`{self.text}` has no value for some row: {error}") from error

    def holds(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Where the expression is true; null is not."""
        return np.asarray(pc.fill_null(self(batch), False))

    def on(self, rows: pa.RecordBatch, wanted: NDArray[np.int64]) -> pa.Array:
        """Its values on some rows only."""
        if len(wanted) == rows.num_rows:
            return self.run(rows)
        needed = sorted(self.columns) or rows.schema.names[:1]
        return self.run(rows.select(needed).take(pa.array(wanted)))


def literal_value(literal: Literal, text: str) -> Evaluable:
    """A literal of SQL, with the type Spark gives it."""
    value = literal.value
    match literal.kind:
        case LiteralKind.NULL:
            return constant(pa.scalar(None, pa.null()), VOID, text, literal)
        case LiteralKind.BOOLEAN:
            return constant(pa.scalar(value, pa.bool_()), BOOLEAN, text, literal)
        case LiteralKind.STRING:
            return constant(pa.scalar(value, pa.string()), STRING, text, literal)
        case LiteralKind.INTEGER:
            assert isinstance(value, decimal.Decimal), "an integer is exact"
            type_ = INTEGER if -(2**31) <= value < 2**31 else LONG
            if not -(2**63) <= value < 2**63:
                raise Unsupported(f"only Spark can calculate with {value}, in `{text}`")
            return constant(pa.scalar(int(value), arrow_type(type_)), type_, text, literal)
        case LiteralKind.DECIMAL:
            shape = Decimal(*decimal_size(literal))
            return constant(pa.scalar(value, arrow_type(shape)), shape, text, literal)
        case _:
            assert isinstance(value, decimal.Decimal), "an exponent is of an exact number"
            return constant(pa.scalar(float(value), pa.float64()), DOUBLE, text, literal)


def constant(scalar: pa.Scalar, type_: DataType, text: str, literal: Literal | None = None) -> Evaluable:
    """The same value on every row."""

    def run(rows: pa.RecordBatch) -> pa.Array:
        return pa.repeat(scalar, rows.num_rows) if scalar.is_valid else pa.nulls(rows.num_rows, scalar.type)

    return Evaluable(type_, frozenset(), run, text, literal)


def narrow(value: Evaluable) -> Evaluable:
    """Next to a decimal, an integer literal has only as many digits as it shows."""
    match value.literal:
        case Literal(LiteralKind.INTEGER, decimal.Decimal() as number):
            shape = Decimal(len(number.as_tuple().digits), 0)
            return constant(pa.scalar(number, arrow_type(shape)), shape, value.text)
        case _:
            return value


def conversion(value: Evaluable, type_: DataType, zone: str) -> Evaluable | None:
    """A value converted to a type; None where only Spark can."""
    if value.type == type_:
        return value
    match value.literal:
        case Literal(LiteralKind.INTEGER | LiteralKind.DECIMAL | LiteralKind.EXPONENT, decimal.Decimal() as number) if (
            type_ == DOUBLE
        ):
            return constant(pa.scalar(float(number), pa.float64()), DOUBLE, value.text)
        case _:
            pass
    if not convertible(value.type, type_, zone):
        return None
    source, run = value.type, value.run
    return Evaluable(type_, value.columns, lambda rows: converted(run(rows), source, type_), value.text)
