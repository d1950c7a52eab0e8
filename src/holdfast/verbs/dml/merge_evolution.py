"""The columns of the source that a MERGE with schema evolution adds to the table.

1. A star takes all of them. Other clauses take what they set by name, as SQL spells it and behind the table's alias: a
   column with all that is in it, or one new field of a struct.
2. What the source does not have is not added: setting it is refused as an unknown column.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from holdfast.errors import Invalid
from holdfast.schema.types import Field, Struct
from holdfast.verbs.define.columns import path_of

Path = tuple[str, ...]


def taken(names: Iterable[str], target: Struct, source: Struct, alias: str | None) -> tuple[Field, ...]:
    """The columns of the source that names in SET and INSERT take, with no more fields than they name."""
    return _within(source, [path for name in names if (path := _path(name, target, source, alias))]).fields


def _path(name: str, target: Struct, source: Struct, alias: str | None) -> Path:
    """The path that a name takes from the source; empty for one that the source lacks, or a field that is there."""
    for schema in (target, source):
        try:
            path = path_of(schema, name, alias)
        except Invalid:
            continue
        return path if schema is source or len(path) == 1 else ()
    return ()


def _within(struct: Struct, paths: list[Path]) -> Struct:
    fields = []
    for f in struct.fields:
        below = [path[1:] for path in paths if path[0].lower() == f.name.lower()]
        if below and all(below) and isinstance(f.type, Struct):
            fields.append(replace(f, type=_within(f.type, below)))
        elif below:
            fields.append(f)
    return Struct(tuple(fields))
