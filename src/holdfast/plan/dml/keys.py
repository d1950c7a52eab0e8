"""Collects the key values of a MERGE's source and prunes the target's files by them.

    batches of the source  ->  gather  ->  KeyValues  ->  by_keys            files that may hold a match
                                                      ->  row_group_filter   a condition for inside of them

Values are kept as ranges (`value_ranges`): each distinct value up to a limit, wider ranges beyond it. So memory is
bounded whatever the size of the source.

1. A value of the source that is neither null nor NaN lies in a range of its key.
2. A file with a row that matches some row of the source is never masked out, and the row satisfies
   `row_group_filter`. A file without statistics is kept.
3. Only types that Spark compares by their own order prune: types of one family (`_family`).
4. Null equals null only by `<=>`; NaN equals NaN; -0.0 equals 0.0. Statistics do not cover NaN.
5. Values and files stay in Arrow and numpy; only the few range ends of `row_group_filter` become Python objects.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.files import FileTable
from holdfast.model.snapshot import Snapshot
from holdfast.plan.dml.change import Key
from holdfast.plan.dml.value_ranges import Ranges
from holdfast.plan.scan.metadata_columns import NO_METADATA, MetadataColumns
from holdfast.plan.scan.prune import Want, is_partition, metadata_values, partition_values, ranges, statistics_leaves
from holdfast.plan.scan.request import with_metadata
from holdfast.predicate.bounds import ColumnBounds, Range, Single
from holdfast.predicate.literal import INTEGER_BITS, LARGEST_PRECISION
from holdfast.predicate.parse import compares_as_stored
from holdfast.predicate.records import ALWAYS, Column, Compare, Constant, In, Op, Or, Predicate, Value, conjunction
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import DataType, Decimal, Field, Primitive, Struct

MOST_RANGES = 200_000
MOST_LISTED = 10_000  # values worth looking up one by one
WORTH = 1 / 32  # of all gaps between values: a narrower one lets a row-group filter skip next to nothing
MOST_FILTERS = 8  # ranges per key in a row-group filter: each becomes a node of Spark's plan
_MOST_BYTES = 64 << 20  # of one key's values, whether gathered or waiting to be
_MOST_WAITING = 1 << 20  # values; sorting them in is worth it by then
_LONGEST_TEXT = 256
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY, _MICRO = datetime.timedelta(days=1), datetime.timedelta(microseconds=1)
# Between these, ways to hand a date to Spark or to a Parquet reader agree about calendars.
_FIRST_DAY, _LAST_DAY = ((datetime.date(year, 1, 1) - _EPOCH.date()).days for year in (1700, 9000))

_Number = TypeVar("_Number", int, decimal.Decimal)
_Moment = TypeVar("_Moment", datetime.date, datetime.datetime)


@dataclass(frozen=True)
class SourceKey:
    """The values of a source in the column of one key; `ranges` is None for a type without an order to prune by."""

    key: Key
    field: Field  # of the source
    ranges: Ranges | None
    has_null: bool
    has_nan: bool


@dataclass(frozen=True)
class KeyValues:
    """The values of a source in its key columns; a source without rows matches nothing."""

    rows: int
    columns: tuple[SourceKey, ...]


def gather(
    batches: Iterable[pa.RecordBatch], keys: Sequence[Key], source: Struct, *, limit: int = MOST_RANGES
) -> KeyValues:
    """Collect the key values in one pass over a source; batches have at least the key columns."""
    gathering = [_Gathering(key, source, limit) for key in keys]
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        for column in gathering:
            column.take(batch)
    return KeyValues(rows, tuple(column.done() for column in gathering))


def by_keys(
    files: FileTable, snapshot: Snapshot, values: KeyValues, metadata: MetadataColumns = NO_METADATA
) -> pa.BooleanArray:
    """The files that may hold a match of some row of the source; `metadata` names keys that are metadata columns."""
    mask = pa.repeat(pa.scalar(values.rows > 0), len(files))
    comparable = _comparable(values, with_metadata(snapshot, snapshot.schema, metadata)) if mask.true_count else []
    on_metadata = [key for key in comparable if key.field.name in metadata.canonical]
    on_partitions = [key for key in comparable if is_partition(snapshot, key.column)]
    others = {key.column for key in (*on_metadata, *on_partitions)}
    on_statistics = [key for key in comparable if key.column not in others]
    if on_metadata:
        bounds = metadata_values(files, Want(snapshot, metadata=metadata), [key.column for key in on_metadata])
        masks = [key.may_be_in(bounds[key.column], files.num_records) for key in on_metadata if key.column in bounds]
        mask = reduce(pc.and_, masks, mask)
    if on_partitions:
        bounds = partition_values(files, snapshot, [key.column for key in on_partitions])
        mask = reduce(pc.and_, [key.may_be_in(bounds[key.column], mask) for key in on_partitions], mask)
    if on_statistics and mask.true_count:
        kept = files.filter(mask)
        columns = [key.column for key in on_statistics]
        stats = kept.stats(dict(statistics_leaves(snapshot, columns).values()))
        bounds = ranges(stats, snapshot, columns)
        masks = [key.may_be_in(bounds[key.column], stats.num_records) for key in on_statistics]
        mask = pc.replace_with_mask(mask, mask, reduce(pc.and_, masks))
    return mask


def row_group_filter(values: KeyValues, target: Struct) -> Predicate:
    """A condition on target columns that holds for every row that may match."""
    if not values.rows:
        return Constant(False)
    parts = [key.filter() for key in _comparable(values, target)]
    return conjunction(tuple(part for part in parts if part != ALWAYS))


def few_keys(values: KeyValues, target: Struct, *, most: int = MOST_LISTED) -> Predicate:
    """For a source with few keys: the values that the columns of any matching row have."""
    if not values.rows:
        return Constant(False)
    parts = [key.listed(most) for key in _comparable(values, target)]
    return conjunction(tuple(part for part in parts if part != ALWAYS))


def stored_keys(values: KeyValues, metadata: MetadataColumns) -> KeyValues:
    """The values without keys that are metadata columns."""
    return KeyValues(
        values.rows, tuple(column for column in values.columns if column.key.target not in metadata.canonical)
    )


class _Gathering:
    """The values of one key so far; new values wait until merging them is worth it."""

    def __init__(self, key: Key, source: Struct, limit: int) -> None:
        field = source.find(key.source)
        assert field is not None, f"the source has no column {key.source}"
        self._key, self._field, self._limit = key, field, limit
        self._has_null = self._has_nan = False
        self._waiting: list[pa.Array] = []
        self._count = self._bytes = 0  # of those that wait
        self._ranges: Ranges | None = None
        if _family(field.type) is not None:
            nothing = _form(pa.array([], arrow_type(field.type)))
            self._ranges = Ranges(nothing, nothing)

    def take(self, batch: pa.RecordBatch) -> None:
        values = batch.column(self._field.name)
        self._has_null = self._has_null or values.null_count > 0
        if self._ranges is None:
            return
        plain = _form(values.cast(arrow_type(self._field.type)))
        self._has_nan = self._has_nan or plain.null_count > values.null_count
        self._waiting.append(plain.drop_null())
        self._count += len(plain)
        self._bytes += plain.nbytes
        if self._count >= _MOST_WAITING or self._bytes >= _MOST_BYTES:
            self._ranges = self._sorted_in(self._ranges)

    def done(self) -> SourceKey:
        ranges = None if self._ranges is None else self._sorted_in(self._ranges)
        return SourceKey(self._key, self._field, ranges, self._has_null, self._has_nan)

    def _sorted_in(self, ranges: Ranges) -> Ranges:
        if self._waiting:
            ranges = ranges.with_values(pa.concat_arrays(self._waiting))
            self._waiting.clear()
            self._count = self._bytes = 0
        fitting = len(ranges) * _MOST_BYTES // max(1, ranges.nbytes)
        return ranges.at_most(max(1, min(self._limit, fitting)))


@dataclass(frozen=True)
class _KeyColumn:
    """The values of a key, converted for comparison with a target column."""

    field: Field  # of the target
    ranges: Ranges
    null: bool
    nan: bool

    @property
    def column(self) -> Column:
        return (self.field.name,)

    def may_be_in(self, bounds: ColumnBounds, num_records: pa.Array) -> pa.BooleanArray:
        """Per file, whether some row may have one of the values."""
        match bounds:
            case Single(values):
                plain = self._form(values)
                possible = pc.and_(self.ranges.meet(plain, plain), plain.is_valid())
                if self.nan:
                    possible = pc.or_(possible, pc.fill_null(pc.is_nan(values), False))
                return pc.or_(possible, values.is_null()) if self.null else possible
            case Range(low, high, null_count):
                # A null count is trusted only at 0 and at the row count.
                possible = _unless(pc.greater_equal(null_count, num_records))
                if not self.nan:
                    possible = pc.and_(possible, self.ranges.meet(self._form(low), self._form(high)))
                return pc.or_(possible, _unless(pc.equal(null_count, 0))) if self.null else possible

    def filter(self) -> Predicate:
        """A condition on the column that holds for each of the values."""
        if self.null or self.nan or self.field.type == Primitive("boolean"):
            return ALWAYS
        few = self.ranges.at_most(MOST_FILTERS, worth=WORTH)
        ends = zip(few.lows.to_pylist(), few.highs.to_pylist(), strict=True)
        tests = [_between(self.column, *_ends(self.field.type, low, high)) for low, high in ends]
        match tests:
            case []:
                return Constant(False)  # the source has nulls only, and `=` finds none
            case [only]:
                return only
            case _:
                return ALWAYS if ALWAYS in tests else Or(tuple(tests))

    def listed(self, most: int) -> Predicate:
        """The condition that the column has one of the values, if these are few and exact; else always true."""
        alone = len(self.ranges) <= most and self.ranges.lows.equals(self.ranges.highs)
        if self.null or self.nan or not alone or _family(self.field.type) in ("float", "boolean"):
            return ALWAYS
        ends = [_ends(self.field.type, low, low) for low in self.ranges.lows.to_pylist()]
        exact = [low for low, high in ends if low is not None and low == high]
        return In(self.column, tuple(exact)) if len(exact) == len(ends) else ALWAYS

    def _form(self, values: pa.Array) -> pa.Array:
        return _form(values).cast(self.ranges.lows.type)


def _comparable(values: KeyValues, target: Struct) -> list[_KeyColumn]:
    """The keys that can prune."""
    comparable = []
    for column in values.columns:
        field = target.find(column.key.target)
        assert field is not None, f"the target has no column {column.key.target}"
        together = _compared_as(field, column.field)
        if column.ranges is not None and together is not None:
            matches_null = column.key.null_safe and column.has_null
            comparable.append(_KeyColumn(field, column.ranges.cast(together), matches_null, column.has_nan))
    return comparable


def _family(type_: DataType) -> str | None:
    """The family of a type: a cast to the wider of two types of one family keeps order and equality."""
    match type_:
        case Primitive(name) if name in INTEGER_BITS:
            return "integer"
        case Primitive("float" | "double"):
            return "float"
        case Primitive("string" | "date" | "timestamp" | "timestamp_ntz" | "boolean" as name):
            return name
        case Decimal(_, scale) if scale >= 0:
            return "decimal"
        case _:
            return None


def _compared_as(target: Field, source: Field) -> pa.DataType | None:
    """The type in which two columns are compared; None if Spark casts them otherwise, pads or rounds them."""
    a, b = target.type, source.type
    if (
        _family(a) is None
        or _family(a) != _family(b)
        or not (compares_as_stored(target) and compares_as_stored(source))
    ):
        return None
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale
        return pa.decimal128(precision, scale) if precision <= LARGEST_PRECISION else None
    return _form(pa.array([], arrow_type(a))).type


def _form(values: pa.Array) -> pa.Array:
    """Values in the form they are compared in: integers for dates and times, doubles without NaN and -0.0."""
    type_ = values.type
    if pa.types.is_floating(type_):
        doubles = pc.add(values.cast(pa.float64()), 0.0)
        return pc.if_else(pc.is_nan(doubles), pa.scalar(None, pa.float64()), doubles)
    if pa.types.is_date(type_):
        values = values.cast(pa.int32())
    if pa.types.is_string(type_) or pa.types.is_decimal(type_):
        return values
    return values.cast(pa.int64())


def _between(column: Column, low: Value | None, high: Value | None) -> Predicate:
    # A reader may tell the two zeros apart, so they are looked for by a range.
    if low is not None and low == high and not (isinstance(low, float) and low == 0):
        return Compare(Op.EQ, column, low)
    tests = ((Op.GE, low), (Op.LE, high))
    return conjunction(tuple(Compare(op, column, end) for op, end in tests if end is not None))


def _ends(type_: DataType, low: Value, high: Value) -> tuple[Value | None, Value | None]:
    """A range in the type of a target column, never narrower; None leaves an end open."""
    match type_, low, high:
        case Decimal(precision, scale), decimal.Decimal(), decimal.Decimal():
            exact = decimal.Context(prec=2 * LARGEST_PRECISION)
            step = decimal.Decimal(1).scaleb(-scale, exact)
            most = decimal.Decimal(10**precision - 1).scaleb(-scale, exact)
            below = low.quantize(step, decimal.ROUND_FLOOR, exact)
            return _within(below, high.quantize(step, decimal.ROUND_CEILING, exact), most.copy_negate(), most)
        case Primitive("string"), str(), str():
            return low[:_LONGEST_TEXT], high if len(high) <= _LONGEST_TEXT else None
        case Primitive("float" | "double"), float(), float():
            return low or -0.0, high or 0.0
        case Primitive("date"), int(), int():
            first, last = _within(low, high, _FIRST_DAY, _LAST_DAY)
            return _moment(_EPOCH.date(), first, _DAY), _moment(_EPOCH.date(), last, _DAY)
        case Primitive("timestamp" | "timestamp_ntz" as name), int(), int():
            first, last = _within(low, high, _FIRST_DAY * (_DAY // _MICRO), _LAST_DAY * (_DAY // _MICRO))
            epoch = _EPOCH.replace(tzinfo=datetime.UTC) if name == "timestamp" else _EPOCH
            return _moment(epoch, first, _MICRO), _moment(epoch, last, _MICRO)
        case Primitive(name), int(), int() if name in INTEGER_BITS:
            half = 2 ** (INTEGER_BITS[name] - 1)
            return _within(low, high, -half, half - 1)
        case _:
            raise AssertionError(f"{low!r} and {high!r} are no values to compare a {type_} with")


def _within(low: _Number, high: _Number, least: _Number, greatest: _Number) -> tuple[_Number | None, _Number | None]:
    """A range cut to limits: an end beyond the near limit is open, one beyond the far limit is that limit."""
    return None if low < least else min(low, greatest), None if high > greatest else max(high, least)


def _moment(epoch: _Moment, units: int | None, unit: datetime.timedelta) -> _Moment | None:
    return None if units is None else epoch + units * unit


def _unless(impossible: pa.BooleanArray) -> pa.BooleanArray:
    """True unless known to be impossible."""
    return pc.invert(pc.fill_null(impossible, False))
