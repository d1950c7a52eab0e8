"""The columns that come out of a query, and which columns of what it reads they are.

Only columns that pass through as they are have a source: as themselves, under an alias, or through a star. A run of
columns that cannot be told is None in its place, so that those before it still have theirs.

1. A source is a name as the block's own WHERE could use it, or the column of one of its relations by number.
2. What has a name here is certain to come out under that name. Nothing else of that name does, or Spark refuses what
   uses it as ambiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from holdfast.schema.types import DataType, Struct
from holdfast.sql.query.conjuncts import KEYWORDS, Name
from holdfast.sql.query.references import Body, Join, QueryBlock, Reference, Relation, Span, name_end, names
from holdfast.sql.text import Statement


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column that comes out of a query."""

    name: str
    source: Name | None = None  # None: it is computed
    type: DataType | None = None  # None: nobody knows


Outputs: TypeAlias = tuple[OutputColumn | None, ...]
UNKNOWN: Outputs = (None,)


class Shapes:
    """The columns of the blocks, bodies and relations of one query."""

    def __init__(self, statement: Statement, columns: Callable[[Reference], Struct | None]) -> None:
        self._statement = statement
        self._columns = columns
        self._known: dict[Span, Outputs] = {}

    def of_body(self, body: Body) -> Outputs:
        """What a query gives; names are those of its first branch, or those that WITH gives."""
        return _called(self.of_branch(body.branches[0]), body.columns)

    def of_branch(self, branch: QueryBlock | Body | None) -> Outputs:
        """What one of the queries between set operators gives."""
        if branch is None:
            return UNKNOWN
        return self.of_body(branch) if isinstance(branch, Body) else self.of_block(branch)

    def of_block(self, block: QueryBlock) -> Outputs:
        """What a SELECT gives, or relations between brackets."""
        if block.span not in self._known:
            self._known[block.span] = tuple(self._listed(block))
        return self._known[block.span]

    def of_relation(self, relation: Relation) -> Outputs:
        """What a relation has."""
        found = UNKNOWN
        if relation.body is not None:
            found = self.of_body(relation.body)
        elif relation.reference is not None and (columns := self._columns(relation.reference)) is not None:
            found = tuple(OutputColumn(f.name, None, f.type) for f in columns)
        return _called(found, relation.columns)

    def at(self, block: QueryBlock, number: int, name: Name) -> tuple[int, tuple[str, ...]] | None:
        """Which column of one of a block's relations a name certainly is, and what follows it in the name."""
        relation, path = block.relations[number], name.path
        outputs = self.of_relation(relation)
        if name.of is not None:
            return column_at(outputs, path) if name.of == number else None
        first = path[0].lower()
        if len(path) > 1 and relation.called is not None and first == relation.called.lower():
            return column_at(outputs, path[1:])
        if len(path) > 1 and any((r.called or "").lower() == first for r in block.relations):
            return None
        return column_at(outputs, path) if self.is_alone(block, number, name) else None

    def is_alone(self, block: QueryBlock, number: int, name: Name) -> bool:
        """Whether a name, if it is a column of this relation, is of no other, or of one that equals it as it is.

        Columns that NATURAL or USING make one have the value of one side; the other's may be of another type.
        """
        first = name.path[0].lower() if name.path else ""
        is_qualified = len(name.path) > 1 and any((r.called or "").lower() == first for r in block.relations)
        if name.of is not None or is_qualified or not any(relation.merges for relation in block.relations):
            return True
        if number == max((i for i, r in enumerate(block.relations) if r.join is Join.RIGHT), default=0):
            return True
        shapes = [self.of_relation(relation) for relation in block.relations]
        types = [out.type for shape in shapes for out in shape if out is not None and out.name.lower() == first]
        return not types or (not any(None in shape for shape in shapes) and len(set(types)) == 1 and None not in types)

    def _listed(self, block: QueryBlock) -> Iterator[OutputColumn | None]:
        if block.select is None:
            yield from self._star(block)
            return
        at, last = block.select
        if self._statement.upper(at) in ("DISTINCT", "ALL"):
            at += 1
        while at < last:
            end = at
            while end < last and self._statement.upper(end) != ",":
                end = self._statement.after(end)
            yield from self._item(block, at, end)
            at = end + 1

    def _item(self, block: QueryBlock, first: int, last: int) -> Iterator[OutputColumn | None]:
        """What one thing in a list of columns gives."""
        statement, end = self._statement, name_end(self._statement, first)
        if statement.upper(first) == "*" or (statement.upper(end), statement.upper(end + 1)) == (".", "*"):
            yield from self._star_item(block, first, last)
            return
        is_column = end > first and statement.upper(first) not in KEYWORDS
        here = end + (statement.upper(end) == "AS")
        if is_column and (end == last or (here == last - 1 and statement.words[here].is_name)):
            path = names(statement, first, end)
            yield OutputColumn(
                path[-1] if end == last else statement.words[here].name, Name(path), self._type(block, path)
            )
        elif last - first > 2 and statement.upper(last - 2) == "AS" and statement.words[last - 1].is_name:
            yield OutputColumn(statement.words[last - 1].name)
        else:
            yield None

    def _star_item(self, block: QueryBlock, first: int, last: int) -> Iterator[OutputColumn | None]:
        statement, end = self._statement, name_end(self._statement, first)
        at = first if statement.upper(first) == "*" else end + 1
        found: Sequence[OutputColumn | None] = UNKNOWN
        if at == first:
            found = tuple(self._star(block))
        else:
            called = names(statement, first, end)
            numbers = [
                i
                for i, r in enumerate(block.relations)
                if len(called) == 1 and (r.called or "").lower() == called[0].lower()
            ]
            if len(numbers) == 1:
                found = tuple(self._columns_of(block, numbers[0]))
        if at + 1 == last:
            yield from found
        elif statement.upper(at + 1) == "EXCEPT" and statement.upper(at + 2) == "(" and statement.after(at + 2) == last:
            left_out = {word.name.lower() for word in statement.words[at + 3 : last - 1] if word.is_name}
            yield from (out for out in found if out is None or out.name.lower() not in left_out)
        else:
            yield None

    def _star(self, block: QueryBlock) -> Iterator[OutputColumn | None]:
        """All columns of a block's relations, in their order."""
        merges = any(relation.merges for relation in block.relations)
        if merges:
            yield None  # those that became one come first
        for number, relation in enumerate(block.relations):
            if relation.join is Join.HALF:
                continue
            for out in self._columns_of(block, number):
                yield replace(out, source=Name((out.name,)), type=None) if merges and out is not None else out
        if block.has_views:
            yield None

    def _columns_of(self, block: QueryBlock, number: int) -> Iterator[OutputColumn | None]:
        for out in self.of_relation(block.relations[number]):
            yield None if out is None else OutputColumn(out.name, Name((out.name,), of=number), out.type)

    def _type(self, block: QueryBlock, path: tuple[str, ...]) -> DataType | None:
        """The type of a column by its name."""
        if any(relation.merges for relation in block.relations):
            return None
        types = []
        for number, relation in enumerate(block.relations):
            found = self.at(block, number, Name(path))
            if found is not None and (out := self.of_relation(relation)[found[0]]) is not None:
                types.append(None if found[1] else out.type)
        return types[0] if len(types) == 1 else None


def column_at(outputs: Outputs, path: tuple[str, ...]) -> tuple[int, tuple[str, ...]] | None:
    """Where a column is; None where there is none of its name, or several that differ."""
    name = path[0].lower()
    places = [i for i, out in enumerate(outputs) if out is not None and out.name.lower() == name]
    if not places or any(outputs[i] != outputs[places[0]] for i in places):
        return None
    return places[0], path[1:]


def _called(outputs: Outputs, given: tuple[str, ...]) -> Outputs:
    """The same columns under the names that an alias gives to them."""
    if not given:
        return outputs
    if None in outputs or len(outputs) != len(given):
        return UNKNOWN
    return tuple(replace(out, name=name) for out, name in zip(outputs, given, strict=True) if out is not None)
