"""What came of asking an engine to do something with a table."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from tests.interop.rows import canonical
from tests.support.compare import describe_difference, is_variant, values


@dataclass(frozen=True, slots=True)
class Works:
    """It did, and the rows are right."""


@dataclass(frozen=True, slots=True)
class Refuses:
    """It said that it cannot, and why."""

    text: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """It did something else than it should have, or broke."""

    text: str


@dataclass(frozen=True, slots=True)
class KnownBug:
    """It reads something else, which is its own bug: one that its makers know of."""

    text: str


class Refused(Exception):
    """An engine did not do what it was asked; the message is its own."""


Answer: TypeAlias = Works | Refuses | Wrong | KnownBug

# How engines say that they lack something, as opposed to failing over bytes they do not understand.
_REFUSAL = re.compile(
    r"unsupported|not (?:yet )?supported|not implemented|does not support|requires format-version", re.IGNORECASE
)
# Failures that happen to tables of other writers too.
_BUGS = {
    "DeltaInsert::Sink expects a single row": "fails to insert rows of several partitions at once: "
    "[duckdb-delta#334](https://github.com/duckdb/duckdb-delta/issues/334)",
    "Failed to cast value: Type VARCHAR": "fails to insert maps and lists in structs, also into tables of delta-rs",
}


def said(error: Refused) -> Answer:
    """An error as an answer: a refusal if it is worded as one."""
    text = " ".join(str(error).split())
    for mark, known in _BUGS.items():
        if mark in text:
            return KnownBug(known)
    return Refuses(_steady(text)) if _REFUSAL.search(text) else Wrong(text)


def _steady(text: str) -> str:
    """The same words on every run: lists of features in order, no paths, no ids."""
    text = re.sub(r"\[([\w, ]+)\]", lambda m: f"[{', '.join(sorted(m[1].split(', ')))}]", text)
    text = re.sub(r"(?:file:)?/[\w./-]{8,}", "…", text)
    return re.sub(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b", "…", text)


def compared(found: pa.Table, wanted: pa.Table) -> Answer:
    """Whether rows are those that should be there; numbers that cannot be known do not count."""
    if "number" in found.column_names and "number" not in wanted.column_names:
        found = found.drop_columns("number")
    difference = describe_difference(plain(found), wanted)
    return Works() if difference is None else Wrong(difference)


def plain(table: pa.Table) -> pa.Table:
    """Variants as JSON text, everything else as it is."""
    for i, (name, type_) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        storage = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
        if is_variant(storage):
            texts = [_text(v) for chunk in table.column(i).chunks for v in values(chunk)]
            table = table.set_column(i, name, pa.array(texts, pa.string()))
        elif name == "var":
            texts = [canonical(text) for text in table.column(i).cast(pa.string()).to_pylist()]
            table = table.set_column(i, name, pa.array(texts, pa.string()))
    return table


def _text(value: object) -> str | None:
    """What `values` makes of a variant, as JSON text."""
    match value:
        case None:
            return None
        case ("variant", decoded):
            return json.dumps(_json(decoded), sort_keys=True)
    raise AssertionError(f"{value!r} is no variant")


def _json(decoded: object) -> Any:
    match decoded:
        case ("null",):
            return None
        case ("string", bytes() as text):
            return text.decode()
        case ("object", fields):
            return {name: _json(inner) for name, inner in fields}
        case ("array", elements):
            return [_json(element) for element in elements]
        case ("decimal", number):
            return float(number)
        case (_, scalar):
            return scalar
    raise AssertionError(f"{decoded!r} is no decoded variant")
