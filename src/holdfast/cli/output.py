"""Prints the result of a command: a table for people, or JSON for programs.

1. JSON is one object per line on stdout and nothing else: a line per row of a list, or one line.
2. Timestamps are ISO 8601, decimals and binaries (base64) are text, maps are objects, NaN and infinities are null.
3. Notes go to stderr, and nowhere with `--json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from enum import Enum
from typing import Any

import click
import msgspec
import pyarrow as pa

from holdfast.cli.screen import Head, grid
from holdfast.cli.visible import json_line, visible


@dataclass(frozen=True, slots=True)
class Answer:
    """The output of a command, as JSON or for people."""

    as_json: bool

    def lines(self, records: Iterable[object]) -> None:
        for record in records:
            click.echo(json_line(_ENCODER.encode(record)))

    def batches(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Print rows as they are read; returns their number."""
        count = 0
        for batch in batches:
            self.lines(records(batch))
            count += batch.num_rows
        return count

    def note(self, text: str) -> None:
        """Print a note to stderr."""
        if not self.as_json:
            click.secho(visible(text), err=True, dim=True)

    def rows(self, rows: pa.Table) -> None:
        if self.as_json:
            self.batches(rows.to_batches())
        else:
            show_rows(rows)


def show_rows(rows: pa.Table) -> None:
    heads = [Head(f.name, right=_is_number(f.type), whole=_is_short(f.type)) for f in rows.schema]
    grid(heads, [tuple(record.values()) for record in records(rows)])


def records(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dictionaries; at most the rows shown, or a batch."""
    rows_as_dicts: list[dict[str, Any]] = rows.to_pylist()
    with_maps = [f for f in rows.schema if has_map(f.type)]
    for record in rows_as_dicts if with_maps else ():
        for field in with_maps:
            record[field.name] = _plain(record[field.name], field.type)
    return rows_as_dicts


def _plain(value: Any, type_: pa.DataType) -> Any:
    """A value with its maps as objects."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return {_key(k): _plain(v, type_.item_type) for k, v in value}
    if pa.types.is_struct(type_):
        return {f.name: _plain(value[f.name], f.type) for f in type_.fields}
    if pa.types.is_list(type_):
        return [_plain(v, type_.value_type) for v in value]
    return value


def _key(key: object) -> str:
    return key if isinstance(key, str) else _ENCODER.encode(key).decode().strip('"')


def has_map(type_: pa.DataType) -> bool:
    """Whether a type contains a map, which JSON has only as an object."""
    inner = [type_.field(i).type for i in range(type_.num_fields)]
    return bool(pa.types.is_map(type_)) or any(map(has_map, inner))


def _is_number(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_))


def _is_short(type_: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(type_) or pa.types.is_boolean(type_))


def _simple(value: object) -> object:
    """Convert a value that msgspec cannot encode."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)


_ENCODER = msgspec.json.Encoder(enc_hook=_simple)
