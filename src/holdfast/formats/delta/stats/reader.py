"""Statistics of files as the log stores them: JSON texts, or typed structs of a checkpoint.

They are parsed on first use, and only for the requested columns.

1. A source is immutable; `filter` and `take` return new ones over the same buffers.
2. Statistics that are absent, malformed or of an unusable type read as null, never as an error.
3. Bounds are safe for pruning, see `bounds`; `tight` is true where the log does not say.
4. Where a file has a struct and a text, the text fills the nulls of the struct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.delta.stats.bounds import count, outer_bounds
from holdfast.formats.delta.stats.text import read_texts
from holdfast.model.files import Bounds, FileStats, LeafPath, StatsSource
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import DataType, Decimal, Primitive
from holdfast.storage.arrays import one_array

_KINDS = ("minValues", "maxValues", "nullCount")


class JsonStats:
    """Statistics as the JSON texts of `add.stats`; a null or empty text has none."""

    __slots__ = ("_texts",)

    def __init__(self, texts: pa.Array | pa.ChunkedArray) -> None:
        chunked = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])
        self._texts = chunked.cast(pa.string())

    def __len__(self) -> int:
        return len(self._texts)

    def read(self, leaves: Mapping[LeafPath, DataType]) -> FileStats:
        """Statistics of these leaves, as values of their types."""
        return _from_struct(parse_texts(self._texts, leaves), leaves)

    def filter(self, mask: pa.Array) -> JsonStats:
        return JsonStats(self._texts.filter(mask))

    def take(self, indices: pa.Array) -> JsonStats:
        return JsonStats(self._texts.take(indices))

    def texts(self) -> pa.Array:
        """The texts as one array."""
        return one_array(self._texts)


class StructStats:
    """Statistics as the `stats_parsed` of a checkpoint, with its `stats` where it has both."""

    __slots__ = ("_parsed", "_texts")

    def __init__(self, parsed: pa.Array | pa.ChunkedArray, texts: pa.Array | pa.ChunkedArray | None = None) -> None:
        self._parsed = parsed if isinstance(parsed, pa.ChunkedArray) else pa.chunked_array([parsed])
        self._texts = None if texts is None else JsonStats(texts)
        assert self._texts is None or len(self._texts) == len(self._parsed), "a text for every struct"

    def __len__(self) -> int:
        return len(self._parsed)

    def read(self, leaves: Mapping[LeafPath, DataType]) -> FileStats:
        """Statistics of these leaves, as values of their types."""
        stats = _from_struct(one_array(self._parsed), leaves)
        if self._texts is None:
            return stats
        incomplete = pc.is_null(stats.num_records)
        for bounds in stats.bounds.values():
            is_null = pc.and_(pc.is_null(bounds.low), pc.and_(pc.is_null(bounds.high), pc.is_null(bounds.null_count)))
            incomplete = pc.or_(incomplete, is_null)
        incomplete = pc.and_(incomplete, pc.is_valid(self._texts.texts()))
        if incomplete.true_count == 0:
            return stats
        return _patched(stats, incomplete, self._texts.filter(incomplete).read(leaves))

    def parts(self) -> tuple[pa.StructArray, pa.Array | None]:
        """The structs, and the texts of the same files."""
        return one_array(self._parsed), None if self._texts is None else self._texts.texts()

    def filter(self, mask: pa.Array) -> StructStats:
        return StructStats(self._parsed.filter(mask), None if self._texts is None else self._texts.filter(mask).texts())

    def take(self, indices: pa.Array) -> StructStats:
        return StructStats(
            self._parsed.take(indices), None if self._texts is None else self._texts.take(indices).texts()
        )


class DeferredStats:
    """Statistics that are read from the file on first use: in a large checkpoint they are most of the bytes."""

    def __init__(
        self, length: int, load: Callable[[], StatsSource], peek: Callable[[], StatsSource] | None = None
    ) -> None:
        self._length = length
        self._load = load
        self._peek = peek or load

    def __len__(self) -> int:
        return self._length

    def read(self, leaves: Mapping[LeafPath, DataType]) -> FileStats:
        return self._loaded.read(leaves)

    def peek(self) -> StatsSource:
        """The values, read again each time, for a caller that goes through a large table once."""
        return self.__dict__.get("_loaded") or self._peek()

    def filter(self, mask: pa.Array) -> StatsSource:
        return DeferredStats(mask.true_count, lambda: self._loaded.filter(mask), lambda: self.peek().filter(mask))

    def take(self, indices: pa.Array) -> StatsSource:
        return DeferredStats(len(indices), lambda: self._loaded.take(indices), lambda: self.peek().take(indices))

    @cached_property
    def _loaded(self) -> StatsSource:
        loaded = self._load()
        assert len(loaded) == self._length, "statistics are aligned with their files"
        return loaded


def parse_texts(texts: pa.ChunkedArray, leaves: Mapping[LeafPath, DataType]) -> pa.StructArray:
    """Statistics texts as structs with the fields that these leaves need."""
    table = read_texts(texts, _text_schema(leaves))
    return pa.StructArray.from_arrays([one_array(column) for column in table.columns], fields=list(table.schema))


def _from_struct(parsed: pa.Array, leaves: Mapping[LeafPath, DataType]) -> FileStats:
    tight = child(parsed, ("tightBounds",))
    bounds = {}
    for leaf, type_ in leaves.items():
        low, high, nulls = (child(parsed, (kind, *leaf)) for kind in _KINDS)
        bounds[leaf] = outer_bounds(low, high, nulls, type_)
    return FileStats(
        count(child(parsed, ("numRecords",))),
        pc.fill_null(tight if pa.types.is_boolean(tight.type) else pa.nulls(len(tight), pa.bool_()), True),
        bounds,
    )


def child(parsed: pa.Array, names: Iterable[str]) -> pa.Array:
    """A field of nested structs, null where any level is null; all null where there is no such field."""
    for name in names:
        at = parsed.type.get_field_index(name) if pa.types.is_struct(parsed.type) else -1
        if at < 0:
            return pa.nulls(len(parsed))
        parsed = pc.struct_field(parsed, [at])
    return parsed


def _patched(stats: FileStats, where: pa.Array, patch: FileStats) -> FileStats:
    """Fills nulls of statistics in the rows of a mask with those of `patch`."""

    def fill(ours: pa.Array, theirs: pa.Array) -> pa.Array:
        if pa.types.is_null(ours.type) or pa.types.is_nested(ours.type):
            return ours  # such columns have no bounds
        return pc.coalesce(ours, pc.replace_with_mask(pa.nulls(len(ours), ours.type), where, theirs))

    return FileStats(
        fill(stats.num_records, patch.num_records),
        pc.replace_with_mask(stats.tight, where, pc.and_(stats.tight.filter(where), patch.tight)),
        {
            leaf: Bounds(
                fill(ours.low, patch.bounds[leaf].low),
                fill(ours.high, patch.bounds[leaf].high),
                fill(ours.null_count, patch.bounds[leaf].null_count),
            )
            for leaf, ours in stats.bounds.items()
        },
    )


def _text_schema(leaves: Mapping[LeafPath, DataType]) -> pa.Schema:
    """The columns of a statistics text that these leaves need."""
    types = {leaf: _text_type(type_) for leaf, type_ in leaves.items()}
    bounds = nested({leaf: type_ for leaf, type_ in types.items() if type_ is not None})
    fields = [("numRecords", pa.int64()), ("tightBounds", pa.bool_())]
    if bounds:
        fields += [("minValues", _struct_of(bounds)), ("maxValues", _struct_of(bounds))]
    if types:
        fields.append(("nullCount", _struct_of(nested(dict.fromkeys(types, pa.int64())))))
    return pa.schema(fields)


def nested(leaves: Mapping[LeafPath, object]) -> dict[str, Any]:
    """Values by leaf path as a tree of dictionaries."""
    tree: dict[str, Any] = {}
    for (*parents, name), value in leaves.items():
        level = tree
        for parent in parents:
            level = level.setdefault(parent, {})
        level[name] = value
    return tree


def _struct_of(tree: Mapping[str, Any]) -> pa.DataType:
    return pa.struct([(name, _struct_of(t) if isinstance(t, dict) else t) for name, t in tree.items()])


def _text_type(type_: DataType) -> pa.DataType | None:
    """The type of a minimum or maximum in a text; None where the column has none."""
    match type_:
        case Primitive("byte" | "short" | "integer" | "long"):
            return pa.int64()
        case Primitive("string" | "date" | "timestamp" | "timestamp_ntz"):
            return pa.string()
        case Primitive("float" | "double" | "boolean") | Decimal():
            return arrow_type(type_)
        case _:
            return None
