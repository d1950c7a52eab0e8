"""What the blocks of a query say of the rows of the queries within them.

A condition on what comes out of a query counts as one more condition of that query, where rows that fail it can be left
out before as well as after: names become those of the columns that pass through, and nothing of the text changes.

    WITH x AS (SELECT id AS k FROM t) SELECT * FROM x WHERE k = 5        of t: id = 5

1. A query hands on what is said of it where its rows do not depend on others that would be left out, see
   `Block.passes` and `Body.passes`. Groups pass: whatever is no aggregate is the same for all rows of a group.
2. Branches of set operators take what is said where the column has one known type in all of them.
3. A query that is read in several places takes what one or the other of them says, and nothing where one says nothing,
   or where that is long: queries that each read the one before twice would double it every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from holdfast.schema.types import Struct
from holdfast.sql.parameters import Parameters
from holdfast.sql.query.conjuncts import Either, Name, Said, condition_of, conditions, renamed, stays
from holdfast.sql.query.outputs import Shapes, column_at
from holdfast.sql.query.references import Body, ParsedQuery, QueryBlock, Reference, Relation, Span
from holdfast.sql.text import Statement

_MOST = 100  # conditions that are worth to be told apart


class Pushdown:
    """What is said of the relations of one query; `said` is what holds of the rows that are wanted of it."""

    def __init__(
        self,
        statement: Statement,
        query: ParsedQuery,
        given: Parameters,
        columns: Callable[[Reference], Struct | None],
        said: Sequence[Said] = (),
    ) -> None:
        self._statement = statement
        self._query = query
        self._given = given
        self._shapes = Shapes(statement, columns)
        self._said = said
        self._readers: dict[Span, list[tuple[QueryBlock, int]]] = {}
        self._around: dict[tuple[type, Span], Body] = {}  # what something is a branch of
        self._of: dict[Span, tuple[Said, ...]] = {}
        for block in query.blocks:
            for at, relation in enumerate(block.relations):
                if relation.body is not None:
                    self._readers.setdefault(relation.body.span, []).append((block, at))
                    self._enter(relation.body)
        if query.body is not None:
            self._enter(query.body)

    def said(self, block: QueryBlock, at: int) -> Sequence[Said]:
        """What holds of each row of a relation that counts, in the names of its block."""
        spans = conditions(self._statement, block, at)
        found: list[Said] = [
            own for span in spans if (own := condition_of(self._statement, span, self._given)) is not None
        ]
        if block.passes and stays(block, at):
            found += self._handed(block)
        if not any(relation.merges for relation in block.relations):
            return found
        return renamed(found, lambda name: name if self._shapes.is_alone(block, at, name) else None)

    def _handed(self, block: QueryBlock) -> tuple[Said, ...]:
        """What is said of the rows that a block gives, in its own names."""
        body = self._around.get((QueryBlock, block.span))
        outputs = self._shapes.of_block(block)

        def source(name: Name) -> Name | None:
            if name.of is None:
                return name  # of relations between brackets, which their block's names reach
            out = outputs[name.of]
            return None if out is None or out.source is None else Name((*out.source.path, *name.path), of=out.source.of)

        return () if body is None else renamed(self._of_branches(body), source)

    def _of_branches(self, body: Body) -> tuple[Said, ...]:
        """What is said of a query that holds for each of those between its set operators."""
        said = self._of_body(body)
        if len(body.branches) == 1 or not said:
            return said
        shapes = [self._shapes.of_branch(each) for each in body.branches]

        def same(name: Name) -> Name | None:
            if name.of is None or any(None in shape[: name.of + 1] or len(shape) <= name.of for shape in shapes):
                return None
            types = {out.type for shape in shapes if (out := shape[name.of]) is not None}
            return name if len(types) == 1 and None not in types else None

        return renamed(said, same)

    def _of_body(self, body: Body) -> tuple[Said, ...]:
        """What is said of the rows that a query gives; names are its columns, by number."""
        if body.span not in self._of:
            self._of[body.span] = tuple(self._gathered(body)) if body.passes else ()
        return self._of[body.span]

    def _gathered(self, body: Body) -> Sequence[Said]:
        if body.span in self._query.shut:
            return ()
        if (Body, body.span) in self._around:
            return self._of_branches(self._around[Body, body.span])
        if body is self._query.body:
            return renamed(self._said, lambda name: _numbered(column_at(self._shapes.of_body(body), name.path)))
        ways = [self._into(block, at, self.said(block, at)) for block, at in self._readers.get(body.span, ())]
        if len(ways) == 1:
            return ways[0]
        either = Either(tuple(ways))
        return (either,) if all(ways) and 0 < either.size <= _MOST else ()

    def _into(self, block: QueryBlock, at: int, said: Iterable[Said]) -> tuple[Said, ...]:
        """What a block says of a query that it reads, in terms of what comes out of that."""
        return renamed(said, lambda name: self._inner(block, at, name))

    def _inner(self, block: QueryBlock, at: int, name: Name) -> Name | None:
        relation = block.relations[at]
        if _is_open(relation) and name.of is None and not any(r.merges for r in block.relations):
            return None if _names_other(block, at, name) else name
        return _numbered(self._shapes.at(block, at, name))

    def _enter(self, body: Body) -> None:
        for branch in body.branches:
            if branch is not None:
                self._around[type(branch), branch.span] = body
            if isinstance(branch, Body):
                self._enter(branch)


def _numbered(found: tuple[int, tuple[str, ...]] | None) -> Name | None:
    return None if found is None else Name(found[1], of=found[0])


def _is_open(relation: Relation) -> bool:
    """Whether the names of relations between brackets are names outside of them too."""
    branch = None if relation.body is None else relation.body.branches[0]
    return relation.called is None and isinstance(branch, QueryBlock) and branch.select is None


def _names_other(block: QueryBlock, at: int, name: Name) -> bool:
    """Whether a name is qualified by another relation of its block."""
    called = {r.called.lower() for i, r in enumerate(block.relations) if i != at and r.called is not None}
    return len(name.path) > 1 and name.path[0].lower() in called
