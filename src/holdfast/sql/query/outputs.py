"""The output columns of a query, and the columns of its relations that they pass through.

Only columns that pass through unchanged have a source: under their own name, under an alias, or through a star. Where
some columns are not known, one None stands for all of them, so that the columns before keep their numbers.

1. A source is a name as the block's own WHERE could use it, or the column of one of its relations by number.
2. An output column with a name certainly has that name. No other column has it, or Spark refuses its use as ambiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from holdfast.schema.types import DataType, Struct
from holdfast.sql.query.conjuncts import KEYWORDS, Name
from holdfast.sql.query.references import Body, Join, QueryBlock, Reference, Relation
from holdfast.sql.text import Span, Statement


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """An output column of a query."""

    name: str
    source: Name | None = None  # None: it is computed
    type: DataType | None = None  # None: not known


Outputs: TypeAlias = tuple[OutputColumn | None, ...]
UNKNOWN: Outputs = (None,)


class OutputColumns:
    """The output columns of the blocks, bodies and relations of one query."""

    def __init__(self, statement: Statement, columns: Callable[[Reference], Struct | None]) -> None:
        self._statement = statement
        self._columns = columns
        self._of_blocks: dict[Span, Outputs] = {}

    def of_body(self, body: Body) -> Outputs:
        """The columns of a query, under the names of its first branch, or those in WITH."""
        return _named(self.of_branch(body.branches[0]), body.columns)

    def of_branch(self, branch: QueryBlock | Body | None) -> Outputs:
        """The columns of a branch of set operators."""
        if branch is None:
            return UNKNOWN
        return self.of_body(branch) if isinstance(branch, Body) else self.of_block(branch)

    def of_block(self, block: QueryBlock) -> Outputs:
        """The columns of a SELECT, or of relations between brackets."""
        if block.span not in self._of_blocks:
            self._of_blocks[block.span] = tuple(self._listed(block))
        return self._of_blocks[block.span]

    def of_relation(self, relation: Relation) -> Outputs:
        """The columns of a relation."""
        outputs = UNKNOWN
        if relation.body is not None:
            outputs = self.of_body(relation.body)
        elif relation.reference is not None and (columns := self._columns(relation.reference)) is not None:
            outputs = tuple(OutputColumn(f.name, None, f.type) for f in columns)
        return _named(outputs, relation.columns)

    def at(self, block: QueryBlock, number: int, name: Name) -> tuple[int, tuple[str, ...]] | None:
        """The number of the column of a relation that a name certainly means, and the rest of the name."""
        relation, path = block.relations[number], name.path
        outputs = self.of_relation(relation)
        if name.of is not None:
            return column_at(outputs, path) if name.of == number else None
        first = path[0].lower()
        if len(path) > 1 and relation.qualifier is not None and first == relation.qualifier.lower():
            return column_at(outputs, path[1:])
        if len(path) > 1 and any((r.qualifier or "").lower() == first for r in block.relations):
            return None
        return column_at(outputs, path) if self.is_alone(block, number, name) else None

    def is_alone(self, block: QueryBlock, number: int, name: Name) -> bool:
        """Whether a name that is a column of this relation is a column of no other, or of others with the same type.

        A column that NATURAL or USING merges has the value of one side; the other side may have another type.
        """
        first = name.path[0].lower() if name.path else ""
        is_qualified = len(name.path) > 1 and any((r.qualifier or "").lower() == first for r in block.relations)
        if name.of is not None or is_qualified or not any(relation.merges for relation in block.relations):
            return True
        if number == max((i for i, r in enumerate(block.relations) if r.join is Join.RIGHT), default=0):
            return True
        relations = [self.of_relation(relation) for relation in block.relations]
        types = [out.type for outs in relations for out in outs if out is not None and out.name.lower() == first]
        return not types or (not any(None in outs for outs in relations) and len(set(types)) == 1 and None not in types)

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
        """The columns of one item of a SELECT list."""
        statement, end = self._statement, self._statement.name_end(first)
        if statement.upper(first) == "*" or (statement.upper(end), statement.upper(end + 1)) == (".", "*"):
            yield from self._star_item(block, first, last)
            return
        is_column = end > first and statement.upper(first) not in KEYWORDS
        here = end + (statement.upper(end) == "AS")
        if is_column and (end == last or (here == last - 1 and statement.words[here].is_name)):
            path = statement.names(first, end)
            yield OutputColumn(
                path[-1] if end == last else statement.words[here].name, Name(path), self._type(block, path)
            )
        elif last - first > 2 and statement.upper(last - 2) == "AS" and statement.words[last - 1].is_name:
            yield OutputColumn(statement.words[last - 1].name)
        else:
            yield None

    def _star_item(self, block: QueryBlock, first: int, last: int) -> Iterator[OutputColumn | None]:
        statement, end = self._statement, self._statement.name_end(first)
        at = first if statement.upper(first) == "*" else end + 1
        outputs: Sequence[OutputColumn | None] = UNKNOWN
        if at == first:
            outputs = tuple(self._star(block))
        else:
            qualifier = [part.lower() for part in statement.names(first, end)]
            numbers = [i for i, r in enumerate(block.relations) if [(r.qualifier or "").lower()] == qualifier]
            if len(numbers) == 1:
                outputs = tuple(self._columns_of(block, numbers[0]))
        if at + 1 == last:
            yield from outputs
        elif statement.upper(at + 1) == "EXCEPT" and statement.upper(at + 2) == "(" and statement.after(at + 2) == last:
            left_out = {word.name.lower() for word in statement.words[at + 3 : last - 1] if word.is_name}
            yield from (out for out in outputs if out is None or out.name.lower() not in left_out)
        else:
            yield None

    def _star(self, block: QueryBlock) -> Iterator[OutputColumn | None]:
        """All columns of a block's relations, in order."""
        merges = any(relation.merges for relation in block.relations)
        if merges:
            yield None  # the merged columns come first
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
            column = self.at(block, number, Name(path))
            if column is not None and (out := self.of_relation(relation)[column[0]]) is not None:
                types.append(None if column[1] else out.type)
        return types[0] if len(types) == 1 else None


def column_at(outputs: Outputs, path: tuple[str, ...]) -> tuple[int, tuple[str, ...]] | None:
    """The number of the column of a name, and the rest of the name; None for no column, or several that differ."""
    name = path[0].lower()
    places = [i for i, out in enumerate(outputs) if out is not None and out.name.lower() == name]
    if not places or any(outputs[i] != outputs[places[0]] for i in places):
        return None
    return places[0], path[1:]


def _named(outputs: Outputs, names: tuple[str, ...]) -> Outputs:
    """The same columns under the names in an alias."""
    if not names:
        return outputs
    if None in outputs or len(outputs) != len(names):
        return UNKNOWN
    return tuple(replace(out, name=name) for out, name in zip(outputs, names, strict=True) if out is not None)
