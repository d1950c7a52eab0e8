"""Writes partition values as text for the log, and as the directory of a file.

1. `schema.partition` parses a text back to the same value, except that the empty string and the empty binary become
   null: the format has no text for them.
2. A timestamp is written in UTC with its microseconds, so that no session's zone matters.
3. A directory name has no character that Hive escapes. Directories are a convention; readers use the text in the log.
"""

from __future__ import annotations

import math
import re
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid
from holdfast.schema.types import DataType, Decimal, Primitive

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{\\[\\]^]")


def escape(text: str) -> str:
    """A name or value, escaped for a directory."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def directory(name: str, text: str | None) -> str:
    """The directory of one partition value; `name` is physical."""
    return f"{escape(name)}={NULL_DIRECTORY if text is None else escape(text)}"


def url_directory(name: str, text: str | None) -> str:
    """The directory as Iceberg's writers name it, URL-encoded: some readers find no other file."""
    return f"{quote_plus(name)}={'null' if text is None else quote_plus(text)}"


def partition_texts(values: pa.Array, type_: DataType, *, column: str) -> pa.Array:
    """The texts of a partition column's values; each distinct value is converted once."""
    encoded = values.dictionary_encode()
    distinct = _texts_of_distinct(encoded.dictionary, type_, column)
    texts = pc.if_else(pc.equal(distinct, ""), pa.scalar(None, pa.string()), distinct)
    return texts.take(encoded.indices)


def _texts_of_distinct(values: pa.Array, type_: DataType, column: str) -> pa.Array:
    match type_:
        case Primitive("string" | "byte" | "short" | "integer" | "long" | "boolean"):
            return values.cast(pa.string())
        case Primitive("binary"):
            return pa.array([_decoded(value, column) for value in values.to_pylist()], pa.string())
        case Primitive("float"):
            return pa.array([_float(value, str(np.float32(value))) for value in values.to_pylist()], pa.string())
        case Primitive("double"):
            return pa.array([_float(value, repr(value)) for value in values.to_pylist()], pa.string())
        case Decimal():
            return pa.array([format(value, "f") for value in values.to_pylist()], pa.string())
        case Primitive("date"):
            return _calendar(values.cast(pa.int32()), "D")
        case Primitive("timestamp"):
            return pc.binary_join_element_wise(_calendar(values.cast(pa.int64()), "us"), "Z", "")
        case Primitive("timestamp_ntz"):
            return pc.replace_substring(_calendar(values.cast(pa.int64()), "us"), "T", " ")
        case _:
            raise Invalid(f"{column} cannot be a partition column: its type has no partition values")


def _calendar(counts: pa.Array, unit: str) -> pa.Array:
    moments = counts.to_numpy(zero_copy_only=False).astype(f"datetime64[{unit}]")
    return pa.array(np.datetime_as_string(moments).astype(object), pa.string())


def _float(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    return shortest if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _decoded(value: bytes, column: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Invalid(
            f"the partition column {column} has the value {value!r}, which is not UTF-8: partition values are text; "
            "partition by another column"
        ) from None
