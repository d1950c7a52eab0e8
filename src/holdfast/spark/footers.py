"""How data files name the table's columns, where the log alone does not say.

Spark finds columns by name and widens most types itself. That is enough where the format resolves by name and the
session ignores case. It is not where columns are resolved by field id, where the session minds case and a file's
spelling differs, or where a whole number became a decimal too narrow for Spark's reader. Then footers are read, and
files with one spelling make one scan.

1. A column a file does not have is asked for under a name the file does not have either: it reads as null.
2. Reading costs one footer per file, only in the three cases above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.errors import Damaged
from holdfast.model.files import FileTable
from holdfast.model.snapshot import Resolve, Snapshot
from holdfast.parquet.footer import Node, columns, read_footer
from holdfast.schema.types import LONG, Array, DataType, Decimal, Field, Map, Primitive, Struct, physical
from holdfast.spark.types import has_void

_WHOLE = {"byte", "short", "integer", "long"}


@dataclass(frozen=True, slots=True)
class Spelling:
    """The name and the type, with nested names, that files give a column, by its physical name; else physical ones."""

    columns: Mapping[str, tuple[str, DataType]] = field(default_factory=dict)

    def top(self, f: Field) -> str:
        return self.columns[f.physical_name][0] if f.physical_name in self.columns else f.physical_name

    def type(self, f: Field) -> DataType:
        return self.columns[f.physical_name][1] if f.physical_name in self.columns else physical(f.type)


def spellings(spark: SparkSession, snapshot: Snapshot, files: FileTable) -> Iterator[tuple[Spelling, FileTable]]:
    """The files, grouped by how they spell the table's columns."""
    by_id = snapshot.resolve is Resolve.BY_ID
    minds_case = spark.conf.get("spark.sql.caseSensitive", "false") == "true"
    if not by_id and not minds_case and not any(_became_decimal(f) for f in snapshot.schema.fields):
        yield Spelling(), files
        return
    fields = _stored(snapshot)
    groups: dict[tuple[tuple[str, str, DataType], ...], list[bool]] = {}
    keys = files.column("key").to_pylist()
    found = [
        _spell(fields, _with_ids(nodes, key) if by_id else nodes, by_id)
        for key, nodes in zip(keys, _footers(snapshot, files), strict=True)
    ]
    for i, spelling in enumerate(found):
        groups.setdefault(spelling, [False] * len(found))[i] = True
    for spelling, mask in groups.items():
        yield Spelling({name: (top, type_) for name, top, type_ in spelling}), files.filter(pa.array(mask))


def _became_decimal(f: Field) -> bool:
    """Whether some whole number in a field, at any depth, was widened to a decimal."""
    changes = f.metadata.get("delta.typeChanges") or ()
    if any(str(c.get("toType")).startswith("decimal") and c.get("fromType") in _WHOLE for c in changes):
        return True
    return any(_became_decimal(inner) for inner in _fields_inside(f.type))


def _fields_inside(type_: DataType) -> Sequence[Field]:
    match type_:
        case Struct(fields):
            return fields
        case Array(element, _):
            return _fields_inside(element)
        case Map(key, value, _):
            return (*_fields_inside(key), *_fields_inside(value))
        case _:
            return ()


def _stored(snapshot: Snapshot) -> list[Field]:
    partition = set(snapshot.partition_columns)
    fields = [f for f in snapshot.schema.fields if f.name not in partition and not has_void(f.type)]
    if snapshot.identity is not None:
        extra = (snapshot.identity.id_column, snapshot.identity.version_column)
        fields += [Field(name, LONG) for name in extra if name is not None]
    return fields


def _footers(snapshot: Snapshot, files: FileTable) -> list[tuple[Node, ...]]:
    location = snapshot.location
    table = files.table

    def nodes(pair: tuple[str, int]) -> tuple[Node, ...]:
        key, size = pair
        return columns(read_footer(location.store, location.store_key(key), size).schema.to_arrow_schema())

    with ThreadPoolExecutor(max_workers=16) as pool:
        return list(pool.map(nodes, zip(table["key"].to_pylist(), table["size"].to_pylist(), strict=True)))


def _with_ids(nodes: tuple[Node, ...], key: str) -> tuple[Node, ...]:
    if nodes and all(node.field_id is None for node in nodes):
        raise Damaged(f"{key} has no field ids, by which its table finds columns; rewrite it", path=key)
    return nodes


def _spell(fields: Sequence[Field], nodes: Sequence[Node], by_id: bool) -> tuple[tuple[str, str, DataType], ...]:
    made = [(f.physical_name, _named(f, nodes, by_id and f.field_id is not None)) for f in fields]
    return tuple((physical_name, f.name, f.type) for physical_name, f in made)


def _named(f: Field, nodes: Sequence[Node], by_id: bool) -> Field:
    """The field as the file has it."""
    node = _find(f, nodes, by_id)
    if node is None:
        taken = {n.name.lower() for n in nodes}
        name = f.physical_name
        while name.lower() in taken:
            name += "_"
        return Field(name, physical(f.type), f.nullable)
    return Field(node.name, _type(f.type, node, by_id), f.nullable)


def _find(f: Field, nodes: Sequence[Node], by_id: bool) -> Node | None:
    if by_id and any(n.field_id is not None for n in nodes):
        return next((n for n in nodes if n.field_id == f.field_id), None)
    exact = next((n for n in nodes if n.name == f.physical_name), None)
    return exact or next((n for n in nodes if n.name.lower() == f.physical_name.lower()), None)


def _type(type_: DataType, node: Node, by_id: bool) -> DataType:
    match type_:
        case Struct(fields) if node.children:
            return Struct(tuple(_named(f, node.children, by_id and f.field_id is not None) for f in fields))
        case Array(element, contains_null) if len(node.children) == 1:
            return Array(_type(element, node.children[0], by_id), contains_null)
        case Map(key, value, value_contains_null) if len(node.children) == 2:
            return Map(_type(key, node.children[0], by_id), _type(value, node.children[1], by_id), value_contains_null)
        case Decimal() if pa.types.is_integer(node.type):
            return LONG if node.type.bit_width == 64 else Primitive("integer")
        case _:
            return physical(type_)
