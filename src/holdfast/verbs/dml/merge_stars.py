"""The assignments of `UPDATE SET *` and `INSERT *` in a MERGE.

1. A source with some of the columns sets those: the others keep what they have, or are what a new row has.
2. A struct with some of the fields sets those, at any depth. No field that was there becomes null because the source
   lacks it.
3. As delta-spark reads it, without schema evolution, a star takes every column from the source, and all of it.
"""

from __future__ import annotations

from holdfast.errors import Invalid, UnknownColumn
from holdfast.plan.dml.change import Set, Side
from holdfast.schema.constraints import quoted
from holdfast.schema.enforce import DEFAULT, GENERATION, missing_fields, refuse_incomplete
from holdfast.schema.identity import identity_of
from holdfast.schema.types import Field, Struct


def starred(side: Side, source: Struct, schema: Struct, alias: str, *, complete: bool) -> tuple[Set, ...]:
    """What a star sets from a source that is called by an alias; `complete` as in `Set`."""
    groups = [_set(f, schema.find(f.name), (), quoted(alias), whole=side is Side.NEW) for f in source.fields]
    if not any(groups):
        raise Invalid(f"the source has none of the table's columns ({', '.join(schema.names[:20])})")
    return tuple(Set(path, value, complete) for group in groups for path, value in group)


def refuse_partial(side: Side, source: Struct, schema: Struct) -> None:
    """Refuse a star, as delta-spark does, where the source lacks what the table does not fill by itself."""
    for f in schema.fields:
        default = DEFAULT in f.metadata or f.write_default is not None
        fills = identity_of(f) is not None or GENERATION in f.metadata or (side is Side.NEW and default)
        given = source.find(f.name)
        if given is None and not fills:
            star = "INSERT *" if side is Side.NEW else "UPDATE SET *"
            raise UnknownColumn(
                f"the source has no column {f.name}, which {star} takes from it: it has "
                f"{', '.join(source.names[:20])}. Name the columns to set, or let the schema evolve, with which some "
                "of the columns are enough",
                column=f.name,
            ).named("DELTA_MERGE_UNRESOLVED_EXPRESSION")
        if given is not None:
            refuse_incomplete(given.type, f.type, (f.name,))


def _set(
    f: Field, target: Field | None, path: tuple[str, ...], prefix: str, *, whole: bool
) -> list[tuple[tuple[str, ...], str]]:
    """Paths and values that a column of the source gives; none where the table has no such column."""
    if target is None:
        return []
    here, value = (*path, target.name), f"{prefix}.{quoted(f.name)}"
    inside = isinstance(f.type, Struct) and isinstance(target.type, Struct)
    if whole or not inside or not any(missing_fields(f.type, target.type)):
        return [(here, value)]
    assert isinstance(f.type, Struct), "both are structs"
    assert isinstance(target.type, Struct), "both are structs"
    within = target.type
    return [one for g in f.type.fields for one in _set(g, within.find(g.name), here, value, whole=False)]
