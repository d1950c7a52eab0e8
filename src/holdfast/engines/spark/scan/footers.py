"""Reads from footers how data files name the table's columns, where the log does not say.

Spark finds columns by name and widens most types itself. That is enough where the format resolves by name and the
session ignores case. It is not where columns are resolved by field id, where the session minds case and a file's
spelling differs, or where a whole number became a decimal too narrow for Spark's reader. Then footers are read, and
files with one spelling make one scan.

1. A column a file does not have is asked for under a name the file does not have either: it reads as null.
2. Reading costs one footer per file, only in the three cases above, and only where a stored column is used; what
   was read is remembered, because a data file never changes.
3. Files with something Spark's reader cannot make (texts of stored UUIDs, a value for a column a file lacks) are told
   apart: they are read by Arrow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from holdfast.engines.spark.types import solid
from holdfast.errors import Damaged, MissingFile
from holdfast.model.files import FileTable
from holdfast.model.snapshot import Resolve, Snapshot
from holdfast.parquet.orc import OrcFile
from holdfast.parquet.pages.footer import Node, columns, read_footer
from holdfast.parquet.read import naming_file
from holdfast.parquet.source import open_source
from holdfast.schema.types import LONG, STRING, Array, DataType, Decimal, Field, Map, Primitive, Struct, physical
from holdfast.storage.base import ObjectStore
from holdfast.storage.open import place

_WHOLE = {"byte", "short", "integer", "long"}
_Spelled: TypeAlias = tuple[
    tuple[str, str, DataType, bool], ...
]  # physical name, name and type in files, whether there
_REMEMBERED_AT_MOST = 200_000  # files
_REMEMBERED: dict[tuple[str, int], tuple[Node, ...]] = {}  # columns by URL and size of a file
_ALIKE: dict[tuple[Node, ...], tuple[Node, ...]] = {}  # most files of a table share one


@dataclass(frozen=True, slots=True)
class Spelling:
    """The name and the type, with nested names, that files give a column, by its physical name; else physical ones."""

    columns: Mapping[str, tuple[str, DataType]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()  # physical names of columns that the files do not have
    by_arrow: bool = False  # Spark's own reader cannot make what these files are asked for

    def top(self, f: Field) -> str:
        return self.columns[f.physical_name][0] if f.physical_name in self.columns else f.physical_name

    def defaults(self, f: Field) -> bool:
        """Whether files lack a column that then has a value all the same."""
        return f.physical_name in self.absent and f.initial_default is not None

    def type(self, f: Field) -> DataType:
        return self.columns[f.physical_name][1] if f.physical_name in self.columns else physical(f.type)


def spellings(
    spark: SparkSession, snapshot: Snapshot, files: FileTable, more: Sequence[Field] = (), *, reads_columns: bool = True
) -> Iterator[tuple[Spelling, FileTable]]:
    """The files, grouped by how they spell the table's columns, and `more` that are read beside them."""
    by_id = snapshot.resolve is Resolve.BY_ID
    minds_case = spark.conf.get("spark.sql.caseSensitive", "false") == "true"
    differs = by_id or minds_case or any(_became_decimal(f) for f in snapshot.schema.fields)
    if not differs or not (reads_columns or more):
        yield Spelling(), files
        return
    fields = [*_stored(snapshot), *more]
    filled = set() if snapshot.placement is None else set(snapshot.placement.identities)
    strict = by_id and all(f.file_names is None for f in fields)
    groups: dict[tuple[_Spelled, bool], list[int]] = {}
    keys = files.column("key").to_pylist()
    for i, (key, nodes) in enumerate(zip(keys, _footers(snapshot, files), strict=True)):
        spelling = _spell(fields, _with_ids(nodes, key, snapshot) if strict else nodes, by_id)
        by_arrow = by_id and any(_is_foreign(f, nodes, filled) for f in fields)
        groups.setdefault((spelling, by_arrow), []).append(i)
    for (spelled, by_arrow), places in groups.items():
        mask = np.zeros(len(keys), np.bool_)
        mask[places] = True
        columns = {name: (top, type_) for name, top, type_, _ in spelled}
        absent = frozenset(name for name, _, _, there in spelled if not there)
        yield Spelling(columns, absent, by_arrow), files.filter(pa.array(mask))


def refuse_nameless(snapshot: Snapshot, files: FileTable) -> None:
    """Refuse files that the task which reads them would refuse: those of ORC in which no column can be found."""
    if snapshot.resolve is not Resolve.BY_ID or any(f.file_names is not None for f in snapshot.schema.fields):
        return
    for key, nodes in zip(files.column("key").to_pylist(), _footers(snapshot, files), strict=True):
        _with_ids(nodes, key, snapshot)


def _is_foreign(f: Field, nodes: Sequence[Node], filled: Collection[int]) -> bool:
    """Whether Spark's reader cannot make a column of what a file has."""
    node = _find(f, nodes, f.field_id is not None)
    if node is None:
        return f.field_id in filled
    if isinstance(f.type, Struct):
        return any(
            _is_foreign(inner, node.children, ())
            or (inner.initial_default is not None and _find(inner, node.children, inner.field_id is not None) is None)
            for inner in f.type.fields
        )
    inside = [f.type.element] if isinstance(f.type, Array) else []
    inside = [f.type.key, f.type.value] if isinstance(f.type, Map) else inside
    if len(inside) == len(node.children) and inside:
        pairs = zip(inside, node.children, strict=True)
        return any(_is_foreign(Field(n.name, t), [n], ()) for t, n in pairs)
    return f.type == STRING and pa.types.is_fixed_size_binary(node.type)


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
    held = (solid(f) for f in snapshot.schema.fields if f.name not in partition)
    fields = [f for f in held if f is not None]
    if snapshot.identity is not None:
        fields += [f for f in (snapshot.identity.id_stored, snapshot.identity.version_stored) if f is not None]
    return fields


def _footers(snapshot: Snapshot, files: FileTable) -> list[tuple[Node, ...]]:
    location = snapshot.location
    table = files.table

    def nodes(one: tuple[str, int, bool]) -> tuple[Node, ...]:
        key, size, is_orc = one
        store, name = place(location, key)
        known = _REMEMBERED.get(file := (f"{store.url}/{name}", size))
        if known is None:
            footer = read_orc(store, name, size) if is_orc else read(store, name, size)
            _REMEMBERED[file] = known = _ALIKE.setdefault(footer, footer)
        return known

    def read(store: ObjectStore, name: str, size: int) -> tuple[Node, ...]:
        try:
            footer = read_footer(store, name, size)
        except MissingFile:
            raise
        except Damaged:
            # Some writers put a wrong size into their metadata; the file itself tells the right one.
            if (actual := store.head(name).size) == size:
                raise
            footer = read_footer(store, name, actual)
        return columns(footer.schema.to_arrow_schema())

    def read_orc(store: ObjectStore, name: str, size: int) -> tuple[Node, ...]:
        with naming_file(f"{store.url}/{name}"):
            return OrcFile(open_source(store, name, size)).nodes

    if len(_REMEMBERED) + len(files) > _REMEMBERED_AT_MOST:
        _REMEMBERED.clear()
        _ALIKE.clear()
    with ThreadPoolExecutor(max_workers=16) as pool:
        orc = pc.equal(table["format"], "orc") if "format" in table.column_names else pa.repeat(False, len(files))
        columns_of = [table["key"].to_pylist(), table["size"].to_pylist(), orc.to_pylist()]
        return list(pool.map(nodes, zip(*columns_of, strict=True)))


def _with_ids(nodes: tuple[Node, ...], key: str, snapshot: Snapshot) -> tuple[Node, ...]:
    if nodes and all(node.field_id is None for node in nodes):
        raise Damaged(f"{key} has no field ids, by which its table finds columns; {snapshot.to_name}", path=key)
    return nodes


def _spell(fields: Sequence[Field], nodes: Sequence[Node], by_id: bool) -> _Spelled:
    names = []
    for f in fields:
        by_its_id = by_id and f.field_id is not None
        node = _named(f, nodes, by_its_id)
        names.append((f.physical_name, node.name, node.type, _find(f, nodes, by_its_id) is not None))
    return tuple(names)


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
    if by_id and f.file_names is not None:
        return next((n for n in nodes if n.name in f.file_names), None)
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
