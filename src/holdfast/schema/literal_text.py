"""Writes values as SQL literals that mean the same in any session.

1. No session setting changes the value of the text, such as the time zone or the meaning of backslashes.
2. Dates and timestamps are not converted by this process's calendar.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable

from holdfast.schema.show import type_text
from holdfast.schema.types import Array, ColumnValue, DataType, Map, Primitive, Struct

_PLAIN = re.compile(r"[A-Za-z0-9_ .,:/+-]*")


def literal_text(value: ColumnValue, type_: DataType) -> str:
    """A value as SQL; the caller casts it where the column's type is wider than that of the literal."""
    match type_:
        case _ if value is None:
            return "NULL"
        case Struct(fields):
            return _call(
                "named_struct", (x for f in fields for x in (_string(f.name), literal_text(value[f.name], f.type)))
            )
        case Array(element, _):
            return _call("array", (literal_text(one, element) for one in value))
        case Map(key, item, _):
            return _call("map", (x for k, v in value for x in (literal_text(k, key), literal_text(v, item))))
        case Primitive("string"):
            return _string(value)
        case Primitive("binary"):
            return f"X'{value.hex()}'"
        case Primitive("boolean"):
            return str(value).lower()
        case Primitive("date"):
            return f"DATE'{value.isoformat()}'"
        case Primitive("timestamp"):
            moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            return f"TIMESTAMP'{moment.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(' ')}Z'"
        case Primitive("timestamp_ntz"):
            return f"TIMESTAMP_NTZ'{value.isoformat(' ')}'"
        case Primitive("time"):
            return f"TIME'{value.isoformat()}'"
        case _:
            return f"CAST('{value}' AS {type_text(type_)})"


def _string(value: str) -> str:
    return f"'{value}'" if _PLAIN.fullmatch(value) else f"CAST(X'{value.encode().hex()}' AS STRING)"


def _call(name: str, parts: Iterable[str]) -> str:
    return f"{name}({', '.join(parts)})"
