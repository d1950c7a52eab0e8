"""Reads the footer of a Parquet file, and the tree of its columns with their names and field ids.

1. Nodes are in the order of the file's columns; the leaves below a node are consecutive, starting at `leaf`.
2. A list has one child, a map two (key, value), a struct one per field; anything else is a leaf.
3. Reading a footer costs one ranged get, or two when it is longer than FOOTER_GUESS.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import Damaged, MissingFile, Unsupported
from holdfast.schema.arrow import is_list
from holdfast.storage.base import NotFound, ObjectStore
from holdfast.storage.error_mapping import parsing

Source: TypeAlias = pa.NativeFile | BinaryIO | str  # what Arrow opens as a file

FOOTER_GUESS = 64 * 1024
_TRAILER = 8  # the footer's length, then the magic
_SMALLEST = 12  # no Parquet file is shorter: magic, empty footer's length, magic


@dataclass(frozen=True, slots=True)
class Node:
    """A column of a file, or something inside one."""

    name: str
    field_id: int | None
    type: pa.DataType
    leaf: int
    children: tuple[Node, ...] = ()

    @property
    def leaves(self) -> int:
        """How many leaves are below this node; 1 for a leaf itself."""
        return sum(child.leaves for child in self.children) if self.children else int(not pa.types.is_struct(self.type))


def columns(schema: pa.Schema) -> tuple[Node, ...]:
    """The columns of a file, from its Arrow schema."""
    return _nodes(schema, 0)


def read_footer(store: ObjectStore, key: str, size: int | None) -> pq.FileMetaData:
    """The footer of a file; `size` is the size that the log states, None where it states none."""
    uri = f"{store.url}/{key}"
    try:
        size = store.head(key).size if size is None else size
        if size < _SMALLEST:
            raise Damaged(
                f"{uri} has {size} bytes, which is no Parquet file; restore it", path=uri, found=f"{size} bytes"
            )
        start = max(0, size - FOOTER_GUESS)
        tail = store.get_range(key, start, size - start)
        _check_magic(tail, uri)
        length = int.from_bytes(tail[-_TRAILER:-4], "little") + _TRAILER
        if length > size:
            raise Damaged(f"{uri} claims a footer longer than itself; restore it", path=uri, found=f"{length} bytes")
        if length > len(tail):
            tail = store.get_range(key, size - length, length)
    except NotFound as error:
        raise MissingFile(f"{uri} is not there, but the table refers to it; restore it", path=uri) from error
    return parse_footer(tail, uri)


def parse_footer(tail: bytes, uri: str) -> pq.FileMetaData:
    """The footer in the last bytes of a file."""
    _check_magic(tail, uri)
    with parsing(uri, "has a footer that cannot be read"):
        return pq.read_metadata(pa.BufferReader(tail))


def leaf_paths(footer: pq.FileMetaData) -> list[str]:
    """The dotted path of each leaf."""
    return [footer.schema.column(n).path for n in range(len(footer.schema))]


def value_count(footer: pq.FileMetaData, column: str | None) -> int | None:
    """How many rows have a value in a top-level column; 0 where there is no such column, None where not stated."""
    paths = leaf_paths(footer)
    if column not in paths:
        return 0
    leaf, count = paths.index(column), 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        statistics = group.column(leaf).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        count += group.num_rows - statistics.null_count
    return count


def _check_magic(tail: bytes, uri: str) -> None:
    if tail[-4:] == b"PARE":
        raise Unsupported(f"{uri} has an encrypted footer, which Holdfast does not read")
    if tail[-4:] != b"PAR1":
        raise Damaged(
            f"{uri} does not end as a Parquet file does; it is truncated or something else, restore it",
            path=uri,
            expected="PAR1",
            found=repr(tail[-4:]),
        )


def _nodes(fields: Iterable[pa.Field], leaf: int) -> tuple[Node, ...]:
    nodes = []
    for field in fields:
        node = _node(field, leaf)
        leaf += node.leaves
        nodes.append(node)
    return tuple(nodes)


def _node(field: pa.Field, leaf: int) -> Node:
    type_ = stored_type(field.type)
    inside: list[pa.Field] = []
    if pa.types.is_map(type_):
        inside = [type_.key_field, type_.item_field]
    elif is_list(type_):
        inside = [type_.value_field]
    elif pa.types.is_struct(type_):
        inside = list(type_.fields)
    return Node(field.name, _field_id(field), type_, leaf, _nodes(inside, leaf))


def stored_type(type_: pa.DataType) -> pa.DataType:
    """The type beneath any extension types."""
    while isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    return type_


def _field_id(field: pa.Field) -> int | None:
    metadata = field.metadata or {}
    field_id = metadata.get(b"PARQUET:field_id") or metadata.get(b"iceberg.id")  # the latter in ORC files
    return None if field_id is None or int(field_id) < 0 else int(field_id)
