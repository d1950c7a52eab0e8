"""Random column types, values of them, and how a file may store them."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import MAPPING_ID, MAPPING_NAME, Array, DataType, Decimal, Field, Map, Primitive, Struct

_SMALL = st.integers(-128, 127)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=5),
    "long": st.integers(-(2**63), 2**63 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "short": st.integers(-(2**15), 2**15 - 1),
    "byte": _SMALL,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "boolean": st.booleans(),
    "binary": st.binary(max_size=5),
    "date": st.dates(dt.date(1900, 1, 1), dt.date(2200, 1, 1)),
    "timestamp": st.datetimes(dt.datetime(1900, 1, 2), dt.datetime(2200, 1, 1), timezones=st.just(dt.UTC)),
    "timestamp_ntz": st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 1, 1)),
    "void": st.none(),
}


def types(*, nested: bool = True) -> st.SearchStrategy[DataType]:
    leaf = st.one_of(
        st.sampled_from([n for n in _VALUES if n != "void"]).map(Primitive),
        st.tuples(st.integers(1, 38), st.integers(0, 10)).map(lambda p: Decimal(max(p), min(p))),
    )
    if not nested:
        return leaf
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            inner.map(Array),
            inner.map(lambda v: Map(Primitive("string"), v)),
            st.lists(inner, min_size=1, max_size=3).map(_struct),
        ),
        max_leaves=4,
    )


def _struct(parts: list[DataType]) -> Struct:
    return Struct(tuple(Field(f"f{i}", t) for i, t in enumerate(parts)))


def schemas() -> st.SearchStrategy[Struct]:
    """Schemas whose fields all have an id and a physical name of their own."""
    return st.lists(types(), min_size=1, max_size=4).map(lambda parts: numbered(_struct(parts)))


def numbered(schema: Struct) -> Struct:
    """The schema with an id and a physical name for every field at every depth."""
    counter = iter(range(1, 1000))

    def mapped(type_: DataType) -> DataType:
        match type_:
            case Struct(fields):
                return Struct(tuple(one(f) for f in fields))
            case Array(element, nullable):
                return Array(mapped(element), nullable)
            case Map(key, value, nullable):
                return Map(mapped(key), mapped(value), nullable)
            case _:
                return type_

    def one(f: Field) -> Field:
        n = next(counter)
        return Field(f.name, mapped(f.type), f.nullable, {MAPPING_ID: n, MAPPING_NAME: f"col-{n}"})

    return Struct(tuple(one(f) for f in schema.fields))


def values(type_: DataType) -> st.SearchStrategy[Any]:
    match type_:
        case Primitive(name):
            known = _VALUES[name]
        case Decimal(precision, scale):
            limit = 10**precision - 1
            known = st.integers(-limit, limit).map(lambda i: exactly(i, scale))
        case Array(element):
            known = st.lists(values(element), max_size=3)
        case Map(key, value):
            whole = values(key).filter(lambda k: k is not None)
            known = st.dictionaries(whole, values(value), max_size=3).map(lambda d: list(d.items()))
        case Struct(fields):
            known = st.fixed_dictionaries({f.name: values(f.type) for f in fields})
    return st.one_of(st.none(), known)


def exactly(unscaled: int, scale: int) -> decimal.Decimal:
    with decimal.localcontext(prec=60):
        return decimal.Decimal(unscaled).scaleb(-scale)


def rows(schema: Struct) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.fixed_dictionaries({f.name: values(f.type) for f in schema.fields}), max_size=12)


def stored_field(field: Field, *, ids: bool, names: bool = True) -> pa.Field:
    """The Arrow field a writer would store a column under: physical names, with or without field ids."""
    metadata = {b"PARQUET:field_id": str(field.field_id).encode()} if ids else None
    name = field.physical_name if names else f"x{field.field_id}"
    return pa.field(name, _stored_type(field.type, ids=ids, names=names), metadata=metadata)


def _stored_type(type_: DataType, *, ids: bool, names: bool) -> pa.DataType:
    match type_:
        case Struct(fields):
            return pa.struct([stored_field(f, ids=ids, names=names) for f in fields])
        case Array(element):
            return pa.list_(pa.field("element", _stored_type(element, ids=ids, names=names)))
        case Map(key, value):
            return pa.map_(_stored_type(key, ids=ids, names=names), _stored_type(value, ids=ids, names=names))
        case _:
            return arrow_type(type_)


def stored_value(value: Any, type_: DataType, *, names: bool = True) -> Any:
    """A value with the names its file uses."""
    if value is None:
        return None
    match type_:
        case Struct(fields):
            return {
                (f.physical_name if names else f"x{f.field_id}"): stored_value(value[f.name], f.type, names=names)
                for f in fields
            }
        case Array(element):
            return [stored_value(v, element, names=names) for v in value]
        case Map(key, inner):
            return [(stored_value(k, key, names=names), stored_value(v, inner, names=names)) for k, v in value]
        case _:
            return value
