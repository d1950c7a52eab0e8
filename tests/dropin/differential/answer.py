"""What an engine answers to a step, in a form in which two answers can be compared.

1. Nothing in it depends on when or where a program ran: places, uuids, names of files, times and sizes are masked.
2. Rows are in order of their text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import Row

Answer = dict[str, Any]
FORM = 1  # goes up when answers are told in another way

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_FILE = re.compile(r"(part|cdc)-[\w<>.-]*parquet")
_SIZE = re.compile(r"time|bytes|size|min$|max$|avg|parallel", re.IGNORECASE)
_NAMED = ("pyspark.errors.exceptions.base", "delta.", "builtins", "holdfast._dropin.errors")
_PASSING = {  # columns of answers that tell about a table, and change from run to run
    "version": ("timestamp", "userId", "userName", "job", "notebook", "clusterId", "engineInfo"),
    "format": ("id", "createdAt", "lastModified", "sizeInBytes"),
}


def answer_of(result: object, places: Mapping[str, str]) -> Answer:
    """What came back, a DataFrame or a value."""
    if not isinstance(result, DataFrame):
        return {"value": plain(result, places)}
    schema = result.schema
    rows = result.collect()
    about = _PASSING.get(schema.names[0] if schema.names else "", ())
    told = sorted(
        (
            [
                "~" if name in about else _cell(name, value, places)
                for name, value in zip(schema.names, row, strict=True)
            ]
            for row in rows
        ),
        key=repr,
    )
    return {
        "columns": schema.names,
        "types": [field.dataType.simpleString() for field in schema],
        "nullable": [field.nullable for field in schema],
        "rows": told,
    }


def error_of(error: BaseException, places: Mapping[str, str]) -> Answer:
    """What was raised: its classes that a user can name, and its condition."""
    condition = getattr(error, "getCondition", lambda: None)()
    classes = [
        each.__name__
        for each in type(error).__mro__
        if each.__module__.startswith(_NAMED) and each not in (object, BaseException)
    ]
    return {"raised": classes, "condition": condition, "says": clean(str(error), places)[:600]}


def plain(value: object, places: Mapping[str, str]) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, Row):
        return plain(value.asDict() if hasattr(value, "__fields__") else list(value), places)
    if isinstance(value, dict):
        return {str(k): plain(v, places) for k, v in sorted(value.items(), key=lambda item: str(item[0]))}
    if isinstance(value, list | tuple | set):
        return [plain(v, places) for v in (sorted(value, key=repr) if isinstance(value, set) else value)]
    if isinstance(value, bytes | bytearray):
        return f"0x{value.hex()}"
    if value is None or isinstance(value, bool | int):
        return value
    return clean(str(value), places)


def clean(text: str, places: Mapping[str, str]) -> str:
    """A text without what is only true of this run."""
    for place, name in places.items():
        text = re.sub(rf"(file:/*)?{re.escape(place)}", name, text)
    return _FILE.sub("<file>", _UUID.sub("<uuid>", text))


def _cell(name: str, value: object, places: Mapping[str, str]) -> Any:
    told = plain(value, places)
    if name in ("operationMetrics", "metrics") and isinstance(told, dict):
        return _counts(told)
    if name.endswith("files_size") or name.startswith("table_size"):
        return "~"
    return told


def _counts(metrics: dict[str, Any]) -> dict[str, Any]:
    """Counts of rows and files; sizes and times are there or not."""
    return {
        name: _counts(value) if isinstance(value, dict) else "~" if value is not None and _SIZE.search(name) else value
        for name, value in metrics.items()
    }
