"""Columns of a table, all said anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable, Invalid
from holdfast.formats.delta.state import load
from holdfast.schema.show import type_text
from holdfast.schema.types import Field
from holdfast.storage.open import open_location
from holdfast.verbs.define.builder import IdentityGenerator

INNER = pa.struct([("a", pa.int32()), ("b", pa.string())])
ROWS = pa.table({"id": [1], "v": ["x"], "s": pa.array([{"a": 1, "b": "y"}], INNER)})


def made(path: Path, **properties: str) -> DeltaTable:
    builder = DeltaTable.create().location(str(path)).addColumn("id", "bigint", nullable=False, comment="which")
    builder = builder.addColumn("v", "string").addColumn("s", "struct<a: int, b: string>")
    for name, value in properties.items():
        builder = builder.property(name, value)
    table = builder.execute()
    table.append(ROWS)
    return table


def mapped(path: Path) -> DeltaTable:
    return made(path, **{"delta.columnMapping.mode": "name"})


def columns(table: DeltaTable, *asked: tuple[Any, ...]) -> list[Field]:
    table.handle.alter.replace_columns(list(asked))
    return list(table.handle.newest().snapshot.schema.fields)


def test_columns_move_and_come_and_take_nulls(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    got = columns(
        table, ("V", "string"), ("n", "int", "new"), ("ID", "bigint"), ("s", "struct<b: string, a: int, c: array<int>>")
    )
    assert [(f.name, type_text(f.type), f.nullable) for f in got] == [
        ("v", "string", True),
        ("n", "integer", True),
        ("id", "long", True),
        ("s", "struct<b: string, a: integer, c: array<integer>>", True),
    ]
    assert [f.metadata.get("comment") for f in got] == [None, "new", "which", None]
    assert table.toArrow().to_pylist() == [{"v": "x", "n": None, "id": 1, "s": {"b": "y", "a": 1, "c": None}}]
    assert table.historyArrow().column("operation")[0].as_py() == "REPLACE COLUMNS"
    version = table.version
    assert columns(table, *((f.name, type_text(f.type)) for f in got)) == got
    assert table.version == version


def test_columns_go_where_they_are_mapped(tmp_path: Path) -> None:
    table = mapped(tmp_path / "t")
    got = columns(table, ("s", "struct<b: string>"), ("id", "bigint"))
    assert [f.name for f in got] == ["s", "id"]
    assert table.toArrow().to_pylist() == [{"s": {"b": "y"}, "id": 1}]
    columns(table, ("s", "struct<b: string>"), ("id", "bigint"), ("v", "string"))
    assert table.toArrow().to_pylist() == [{"s": {"b": "y"}, "id": 1, "v": None}]
    stored = load(open_location(str(tmp_path / "t"))).snapshot.schema
    assert len({f.physical_name for f in stored.fields}) == 3


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([("id", "bigint"), ("v", "string")], "dropping s needs column mapping"),
        ([("id", "int"), ("v", "string"), ("s", "struct<a: int, b: string>")], "id is long and would become integer"),
        ([("id", "bigint"), ("w", "string"), ("s", "struct<a: int, b: string>")], "w would be new and v gone"),
        ([("id", "bigint"), ("v", "string"), ("s", "struct<a: int, c: string>")], "columns of s c would be new"),
        ([("id", "bigint"), ("ID", "bigint")], "ID"),
        ([], "at least one column"),
    ],
)
def test_what_cannot_be_replaced_is_refused(tmp_path: Path, asked: list[tuple[str, str]], said: str) -> None:
    table = made(tmp_path / "t")
    with pytest.raises(Invalid, match=said):
        columns(table, *asked)
    assert table.version == 1


def test_columns_that_hold_something_stay(tmp_path: Path) -> None:
    table = mapped(tmp_path / "t")
    table.addConstraint("some", "v IS NOT NULL")
    with pytest.raises(Invalid, match="constraint some"):
        columns(table, ("id", "bigint"))
    builder = DeltaTable.create().location(str(tmp_path / "n")).addColumn("v", "string")
    numbered = builder.addColumn("id", "bigint", generatedAlwaysAs=IdentityGenerator()).execute()
    with pytest.raises(Invalid, match="numbers id itself"):
        columns(numbered, ("v", "string"))
    builder = DeltaTable.create().location(str(tmp_path / "l")).property("delta.columnMapping.mode", "name")
    listed = builder.addColumn("xs", "array<struct<a: int, b: int>>").execute()
    with pytest.raises(Invalid, match="is in a list"):
        columns(listed, ("xs", "array<struct<a: int>>"))
