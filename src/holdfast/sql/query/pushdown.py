"""Pushdown: which conditions hold of the rows of a relation that a query needs.

A condition on the output of a subquery becomes one more condition of the subquery, where leaving out rows before it
gives the same answer as leaving them out after it. Only the names change, to those of the columns that pass through.

    WITH x AS (SELECT id AS k FROM t) SELECT * FROM x WHERE k = 5        of t: id = 5

1. A condition passes into a query whose rows do not depend on rows that it leaves out: see `QueryBlock.passes` and
   `Body.passes`. It passes through groups, because a column that is no aggregate has one value per group.
2. It passes into the branches of set operators where the column has the same known type in all of them.
3. A query with several readers gets the disjunction of their conditions. It gets none where one reader has none, or
   where the disjunction is long: it would double with each query that reads the one before twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from holdfast.schema.types import Struct
from holdfast.sql.parameters import Parameters
from holdfast.sql.query import conjuncts
from holdfast.sql.query.conjuncts import Conjunct, Either, Name, condition_of, renamed, stays
from holdfast.sql.query.outputs import OutputColumns, column_at
from holdfast.sql.query.references import Body, ParsedQuery, QueryBlock, Reference, Relation
from holdfast.sql.text import Span, Statement

_MOST = 100  # conditions of a disjunction


class Pushdown:
    """The conditions on the relations of one query, whose needed rows satisfy `conditions`."""

    def __init__(
        self,
        statement: Statement,
        query: ParsedQuery,
        parameters: Parameters,
        columns: Callable[[Reference], Struct | None],
        conditions: Sequence[Conjunct] = (),
    ) -> None:
        self._statement = statement
        self._query = query
        self._parameters = parameters
        self._outputs = OutputColumns(statement, columns)
        self._on_query = conditions
        self._readers: dict[Span, list[tuple[QueryBlock, int]]] = {}
        self._parents: dict[tuple[type, Span], Body] = {}  # by branch
        self._on_bodies: dict[Span, tuple[Conjunct, ...]] = {}
        for block in query.blocks:
            for at, relation in enumerate(block.relations):
                if relation.body is not None:
                    self._readers.setdefault(relation.body.span, []).append((block, at))
                    self._enter(relation.body)
        if query.body is not None:
            self._enter(query.body)

    def conditions(self, block: QueryBlock, at: int) -> Sequence[Conjunct]:
        """The conditions that each needed row of a relation satisfies, in the names of its block."""
        spans = conjuncts.conditions(self._statement, block, at)
        conditions: list[Conjunct] = [
            own for span in spans if (own := condition_of(self._statement, span, self._parameters)) is not None
        ]
        if block.passes and stays(block, at):
            conditions += self._on_block(block)
        if not any(relation.merges for relation in block.relations):
            return conditions
        return renamed(conditions, lambda name: name if self._outputs.is_alone(block, at, name) else None)

    def _on_block(self, block: QueryBlock) -> tuple[Conjunct, ...]:
        """The conditions on the rows that a block gives, in its own names."""
        body = self._parents.get((QueryBlock, block.span))
        outputs = self._outputs.of_block(block)

        def source(name: Name) -> Name | None:
            if name.of is None:
                return name  # of relations between brackets, whose names the block around them can use
            out = outputs[name.of]
            return None if out is None or out.source is None else Name((*out.source.path, *name.path), of=out.source.of)

        return () if body is None else renamed(self._on_branches(body), source)

    def _on_branches(self, body: Body) -> tuple[Conjunct, ...]:
        """The conditions on a query that hold for each of its branches."""
        conditions = self._on_body(body)
        if len(body.branches) == 1 or not conditions:
            return conditions
        branches = [self._outputs.of_branch(branch) for branch in body.branches]

        def same(name: Name) -> Name | None:
            if name.of is None or any(None in outs[: name.of + 1] or len(outs) <= name.of for outs in branches):
                return None
            types = {out.type for outs in branches if (out := outs[name.of]) is not None}
            return name if len(types) == 1 and None not in types else None

        return renamed(conditions, same)

    def _on_body(self, body: Body) -> tuple[Conjunct, ...]:
        """The conditions on the rows that a query gives; names are numbers of its columns."""
        if body.span not in self._on_bodies:
            self._on_bodies[body.span] = tuple(self._collected(body)) if body.passes else ()
        return self._on_bodies[body.span]

    def _collected(self, body: Body) -> Sequence[Conjunct]:
        if body.span in self._query.shut:
            return ()
        if (Body, body.span) in self._parents:
            return self._on_branches(self._parents[Body, body.span])
        if body is self._query.body:
            return renamed(self._on_query, lambda name: _numbered(column_at(self._outputs.of_body(body), name.path)))
        readers = [self._into(block, at, self.conditions(block, at)) for block, at in self._readers.get(body.span, ())]
        if len(readers) == 1:
            return readers[0]
        either = Either(tuple(readers))
        return (either,) if all(readers) and 0 < either.size <= _MOST else ()

    def _into(self, block: QueryBlock, at: int, conditions: Iterable[Conjunct]) -> tuple[Conjunct, ...]:
        """The conditions of a block on a query that it reads, in terms of that query's columns."""
        return renamed(conditions, lambda name: self._inner(block, at, name))

    def _inner(self, block: QueryBlock, at: int, name: Name) -> Name | None:
        relation = block.relations[at]
        if _is_open(relation) and name.of is None and not any(r.merges for r in block.relations):
            return None if _names_other(block, at, name) else name
        return _numbered(self._outputs.at(block, at, name))

    def _enter(self, body: Body) -> None:
        for branch in body.branches:
            if branch is not None:
                self._parents[type(branch), branch.span] = body
            if isinstance(branch, Body):
                self._enter(branch)


def _numbered(column: tuple[int, tuple[str, ...]] | None) -> Name | None:
    return None if column is None else Name(column[1], of=column[0])


def _is_open(relation: Relation) -> bool:
    """Whether names of relations between brackets can be used outside of them too."""
    branch = None if relation.body is None else relation.body.branches[0]
    return relation.qualifier is None and isinstance(branch, QueryBlock) and branch.select is None


def _names_other(block: QueryBlock, at: int, name: Name) -> bool:
    """Whether a name is qualified by another relation of its block."""
    others = {r.qualifier.lower() for i, r in enumerate(block.relations) if i != at and r.qualifier is not None}
    return len(name.path) > 1 and name.path[0].lower() in others
