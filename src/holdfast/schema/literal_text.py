"""Values of columns as SQL text that gives the same value in any session.

1. No setting of a session, its time zone and the meaning of backslashes among them, changes what the text gives.
2. A date or a moment does not pass through a calendar of this process.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Any

from holdfast.schema.show import type_text
from holdfast.schema.types import Array, DataType, Map, Primitive, Struct

_PLAIN = re.compile(r"[A-Za-z0-9_ .,:/+-]*")


def literal_text(value: Any, type_: DataType) -> str:
    """A value, as Arrow takes it, as SQL; to be cast to its type where that is wider than what the text says."""
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
