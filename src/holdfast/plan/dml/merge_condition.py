"""Parses the condition of a MERGE: its equality keys, and its predicates on the target alone.

The engine joins by the condition itself; keys and predicates only limit what it reads. A name belongs to a side by its
qualifier, or because no other side has such a column.

1. A row of the target that matches satisfies every key with some row of the source, and `target_only`.
2. A part that is not understood for certain gives neither keys nor predicates, nor does a name that fits both sides.
3. Columns have the spelling of their schema.
4. `source_columns` and `references` name every column that the text may use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from holdfast.plan.dml.change import Key
from holdfast.predicate.parse import name_parts, read, syntax_tree
from holdfast.predicate.records import ALWAYS, Opaque, Predicate, conjunction, conjuncts, has_opaque
from holdfast.schema.types import Struct

_UNREADABLE = "holdfast_unreadable"  # the call that stands for a part of a Column that could not be read
_EQUALITIES = (exp.EQ, exp.NullSafeEQ)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class On:
    """The parsed condition of a MERGE."""

    keys: tuple[Key, ...] = ()
    target_only: Predicate = ALWAYS  # holds for every row of the target that matches
    has_equality: bool = False  # an expression of the target equals an expression of the source
    is_understood: bool = False  # the condition is its keys and `target_only`, and nothing else
    source_columns: frozenset[str] | None = None  # top-level columns of the source; None: any may be used


def parse_merge_condition(
    on_text: str,
    target: Struct,
    source: Struct,
    target_alias: str | None = None,
    source_alias: str | None = None,
    zone: str = "UTC",
) -> On:
    """Parse a condition; `zone` is the time zone of the session."""
    tree = syntax_tree(on_text)
    if tree is None:
        return On()
    names = _Names(target, source, target_alias, source_alias)
    keys: list[Key] = []
    alone: list[exp.Expr] = []
    rest: list[exp.Expr] = []
    for part in _parts(tree):
        if key := _key(part, names):
            keys.append(key)
        else:
            (alone if all(map(names.of_target, _references(part))) else rest).append(part)
    always: exp.Expr = exp.Boolean(this=True)
    plain = [_unqualified(part, names) for part in alone]  # copies: the tree is not ours
    together = reduce(lambda a, b: exp.And(this=a, expression=b), plain, always)
    stated = conjuncts(read(together, on_text, target, zone=zone))
    return On(
        keys=tuple(dict.fromkeys(keys)),
        target_only=conjunction(tuple(p for p in stated if not isinstance(p, Opaque))),
        has_equality=bool(keys) or any(_is_equality(part, names) for part in rest),
        is_understood=not rest and not any(map(has_opaque, stated)),
        source_columns=_used(tree, on_text, source, source_alias),
    )


def source_aliases(
    texts: Sequence[str],
    target: Struct,
    source: Struct,
    target_alias: str | None,
    is_alias: Callable[[str], bool] = lambda name: False,
) -> frozenset[str]:
    """The names that these texts may use for the source: qualifiers of its columns, except the target's alias.

    A struct with a field of that name is no qualifier, unless `is_alias` says so. Unreadable texts give no names.
    """
    trees = filter(None, map(syntax_tree, texts))
    references = [parts for tree in trees for parts in _dotted(tree)]
    target_name = (target_alias or "").lower()
    return frozenset(
        first.lower()
        for first, second, *_ in references
        if first.lower() != target_name
        and (second == "*" or source.find(second) is not None)
        and (not any(_has_field(schema, first, second) for schema in (target, source)) or is_alias(first))
    )


def _has_field(schema: Struct, column: str, name: str) -> bool:
    field = schema.find(column)
    return field is not None and isinstance(field.type, Struct) and field.type.find(name) is not None


def references(text: str, schema: Struct, alias: str | None) -> frozenset[str] | None:
    """The top-level columns of one side that an expression may use; None if it may use any."""
    tree = syntax_tree(text)
    return None if tree is None else _used(tree, text, schema, alias)


def _used(tree: exp.Expr, text: str, schema: Struct, alias: str | None) -> frozenset[str] | None:
    # A quoted word is a string or a name, depending on session settings.
    if '"' in text or tree.find(exp.Query, exp.Lambda, exp.Star) or _is_unreadable(tree):
        return None
    references = list(_references(tree))
    used = {name for parts in references for name in _candidates(parts, schema, alias)}
    # A column may have the name of a function without parentheses, and the parser gives only the function.
    parsed = {part.lower() for parts in references for part in parts}
    unparsed = {word.lower() for word in _WORD.findall(text)} - parsed
    return frozenset(f.name for f in schema if f.name in used or f.name.lower() in unparsed)


@dataclass(frozen=True, slots=True)
class _Names:
    """Resolves references to columns of the two sides."""

    target: Struct
    source: Struct
    target_alias: str | None
    source_alias: str | None

    def of_target(self, parts: Sequence[str]) -> tuple[str, ...]:
        """The path of a column of the target; empty if it is the source's, or uncertain."""
        return self._path(parts, self.target, self.target_alias, self.source, self.source_alias)

    def of_source(self, parts: Sequence[str]) -> tuple[str, ...]:
        return self._path(parts, self.source, self.source_alias, self.target, self.target_alias)

    def _path(
        self, parts: Sequence[str], ours: Struct, alias: str | None, theirs: Struct, their_alias: str | None
    ) -> tuple[str, ...]:
        """A qualifier wins over a struct of the same name, as in Spark."""
        if not parts:
            return ()
        if len(parts) > 1:
            mine, others = _qualified(parts, ours, alias), _qualified(parts, theirs, their_alias)
            if mine and others and (alias == parts[0]) != (their_alias == parts[0]):
                mine, others = (mine, ()) if alias == parts[0] else ((), others)
            if mine or others:
                return () if others else mine
            if _may_be_qualified(parts, ours, alias) or _may_be_qualified(parts, theirs, their_alias):
                return ()
        field = ours.find(parts[0])
        return () if field is None or theirs.find(parts[0]) else (field.name, *parts[1:])


def _qualified(parts: Sequence[str], schema: Struct, alias: str | None) -> tuple[str, ...]:
    field = schema.find(parts[1]) if alias is not None and alias.lower() == parts[0].lower() else None
    return () if field is None else (field.name, *parts[2:])


def _may_be_qualified(parts: Sequence[str], schema: Struct, alias: str | None) -> bool:
    """Whether a dotted name may have a qualifier that is unknown here, or longer than the alias."""
    if alias is None:
        return any(map(schema.find, parts[1:]))
    return alias.lower() in [part.lower() for part in parts[1:-1]]


def _parts(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The conjuncts, in the order of the text."""
    pending = [tree]
    while pending:
        match pending.pop():
            case exp.Paren() as node:
                pending.append(node.this)
            case exp.And() as node:
                pending += [node.expression, node.this]
            case node:
                yield node


def _key(node: exp.Expr, names: _Names) -> Key | None:
    if type(node) not in _EQUALITIES:
        return None
    left, right = name_parts(node.args["this"]), name_parts(node.args["expression"])
    for ours, theirs in ((left, right), (right, left)):
        match names.of_target(ours), names.of_source(theirs):
            case (target,), (source,):
                return Key(target, source, null_safe=isinstance(node, exp.NullSafeEQ))
    return None


def _is_equality(node: exp.Expr, names: _Names) -> bool:
    """Whether rows can be joined by it: an expression of the target equals an expression of the source."""
    if type(node) not in _EQUALITIES:
        return False
    left, right = (list(_references(node.args[side])) for side in ("this", "expression"))
    return any(
        bool(ours and theirs) and all(map(names.of_target, ours)) and all(map(names.of_source, theirs))
        for ours, theirs in ((left, right), (right, left))
    )


def _unqualified(node: exp.Expr, names: _Names) -> exp.Expr:
    """The same expression with unqualified columns of the target."""

    def plain(part: exp.Expr) -> exp.Expr:
        path = names.of_target(parts) if (parts := name_parts(part)) else ()
        if not path:
            return part
        first, *rest = (exp.to_identifier(name, quoted=True) for name in path)
        column: exp.Expr = exp.Column(this=first)
        return reduce(lambda above, name: exp.Dot(this=above, expression=name), rest, column)

    return node.transform(plain)


def _references(node: exp.Expr) -> Iterator[list[str]]:
    """The name parts of every reference to a column."""
    for part in node.dfs(prune=lambda n: bool(name_parts(n))):
        if parts := name_parts(part):
            yield parts


def _dotted(tree: exp.Expr) -> Iterable[list[str]]:
    yield from (parts for parts in _references(tree) if len(parts) > 1)
    for star in tree.find_all(exp.Star):
        if isinstance(star.parent, exp.Column) and star.parent.parts[:-1]:
            yield [part.name for part in star.parent.parts]


def _candidates(parts: Sequence[str], schema: Struct, alias: str | None) -> Iterator[str]:
    """The columns of a schema that a reference may mean."""
    if path := _qualified(parts, schema, alias) if len(parts) > 1 else ():
        yield path[0]
        return
    # The alias may itself be qualified, like the name of a table; an unknown alias may be any part.
    is_ours = alias is None or alias.lower() in [part.lower() for part in parts[:-1]]
    for part in parts if is_ours else parts[:1]:
        if field := schema.find(part):
            yield field.name


def _is_unreadable(tree: exp.Expr) -> bool:
    return any(call.name.lower() == _UNREADABLE for call in tree.find_all(exp.Anonymous))
