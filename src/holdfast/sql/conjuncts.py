"""What the conditions of a SELECT say of the rows of one of its tables.

Spark applies every condition; what is found here only leaves out files. So a condition is taken where it is certain
that a row which fails it changes nothing of the answer, and left alone otherwise.

1. A condition of WHERE counts for a table that no outer join fills up with nulls; one of ON for the side of the join
   whose rows only come in by satisfying it.
2. Only conditions count that name columns of the one table, compare them with literals, and say the same each time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.errors import Invalid
from holdfast.predicate.parse import parse, unknown_names
from holdfast.predicate.records import (
    ALWAYS,
    And,
    Compare,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    has_opaque,
)
from holdfast.schema.constraints import quoted
from holdfast.schema.types import Struct
from holdfast.sql.parameters import Parameters, literal
from holdfast.sql.references import Block, Join, Relation, Span, name_end, names
from holdfast.sql.text import Kind, Statement

METADATA = "_metadata"
_QUERIES = frozenset(("SELECT", "EXISTS", "FROM"))


@dataclass(frozen=True, slots=True)
class Subject:
    """The table that conditions are about."""

    called: str
    columns: Struct
    others: Collection[str]  # what else the FROM clause has, by name
    metadata: Mapping[str, str] = field(default_factory=dict)  # fields of `_metadata`, and the columns they are
    parts: tuple[str, ...] = ()  # the whole name, where there is no alias


def conditions(statement: Statement, block: Block, relation: Relation) -> Iterator[Span]:
    """The conditions of a block that may leave out rows of one of its relations."""
    if not block.is_plain:
        return
    at = block.relations.index(relation)
    begins = max((i for i in range(at + 1) if block.relations[i].join is Join.FIRST), default=0)
    ends = next((i for i in range(at + 1, len(block.relations)) if block.relations[i].join is Join.FIRST), None)
    joined = block.relations[begins:ends]  # what a comma divides does not fill up with nulls what it divides from
    at -= begins
    if block.where is not None and _stays(joined, at, len(joined)):
        yield from conjuncts(statement, *block.where)
    for other in range(max(at, 1), len(joined)):
        on, join = joined[other].on, joined[other].join
        if on is None:
            continue
        own = other == at and join in (Join.INNER, Join.LEFT, Join.HALF)
        before = other > at and join in (Join.INNER, Join.RIGHT) and _stays(joined, at, other)
        if own or before:
            yield from conjuncts(statement, *on)


def _stays(joined: tuple[Relation, ...], at: int, end: int) -> bool:
    """Whether no join up to one fills a relation up with nulls, or hides it."""
    if at and joined[at].join in (Join.LEFT, Join.FULL, Join.HALF):
        return False
    return all(r.join not in (Join.RIGHT, Join.FULL) for r in joined[at + 1 : end])


def conjuncts(statement: Statement, first: int, last: int) -> list[Span]:
    """The parts of a condition that must all be true."""
    if first >= last:
        return []
    if statement.upper(first) == "(" and statement.closes[first] == last - 1:
        return conjuncts(statement, first + 1, last - 1)
    parts: list[Span] = []
    begun, at, cases, betweens = first, first, 0, 0
    while at < last:
        match statement.upper(at):
            case "CASE":
                cases += 1
            case "END":
                cases -= 1
            case "OR" | "XOR" if cases == 0:
                return [(first, last)]
            case "BETWEEN" if cases == 0:
                betweens += 1
            case "AND" if cases == 0 and betweens:
                betweens -= 1
            case "AND" if cases == 0:
                parts.append((begun, at))
                begun = at + 1
        at = statement.after(at)
    parts.append((begun, last))
    if len(parts) == 1:
        return parts
    return [inner for part in parts for inner in conjuncts(statement, *part)]


def understood(
    statement: Statement, span: Span, subject: Subject, given: Parameters, *, zone: str = "UTC"
) -> str | None:
    """A condition as text about a table's own columns; None where it is about something else, or is not understood."""
    text = _about(statement, span, subject, given)
    if text is None or unknown_names(text, subject.columns):
        return None
    said = parse(text, subject.columns, zone=zone)
    if not has_opaque(said):
        return text
    weaker = _weaker(said)
    rendered = _rendered(weaker)
    return rendered if rendered and parse(rendered, subject.columns, zone=zone) == weaker else None


def _weaker(predicate: Predicate) -> Predicate:
    """What is true wherever a predicate is, without the parts that only Spark understands."""
    match predicate:
        case And(parts):
            left = tuple(p for p in map(_weaker, parts) if p != ALWAYS)
            return left[0] if len(left) == 1 else And(left) if left else ALWAYS
        case Or(parts):
            weaker = tuple(map(_weaker, parts))
            return ALWAYS if ALWAYS in weaker else Or(weaker)
        case _:
            return ALWAYS if has_opaque(predicate) else predicate


def _rendered(predicate: Predicate) -> str | None:
    """A predicate as text that is parsed to the same; None where nobody can promise that."""
    match predicate:
        case And(parts) | Or(parts):
            inner = [_rendered(part) for part in parts]
            word = " AND " if isinstance(predicate, And) else " OR "
            return None if None in inner else word.join(f"({part})" for part in inner)
        case Not(part):
            negated = _rendered(part)
            return None if negated is None else f"NOT ({negated})"
        case IsNull(column):
            return f"{_path(column)} IS NULL"
        case Compare(op, column, value):
            return f"{_path(column)} {op.value} {literal(value)}"
        case In(column, values):
            return f"{_path(column)} IN ({', '.join(map(literal, values))})"
        case StartsWith(column, prefix):
            return f"startswith({_path(column)}, {literal(prefix)})"
        case _:
            return None


def _path(column: Sequence[str]) -> str:
    return ".".join(map(quoted, column))


def _about(statement: Statement, span: Span, subject: Subject, given: Parameters) -> str | None:
    at, last = span
    parts: list[str] = []
    while at < last:
        word = statement.words[at]
        if word.upper in _QUERIES:
            return None
        if parts and statement.words[at - 1].end < word.start:
            parts.append(" ")  # not always: an operator may be two marks
        if (value := given.at(statement, at)) is not None:
            try:
                parts.append(literal(value[2]))
            except Invalid:
                return None
            at += value[1]
            continue
        end = name_end(statement, at) if word.is_name else at
        if end > at and not (statement.upper(end) == "(" or statement.kind(end) is Kind.TEXT):
            column = _column(names(statement, at, end), subject)
            if column is not None:
                parts.append(_path(column))
            elif end - at == 1 and word.kind is Kind.NAME:
                parts.append(word.text)  # a keyword, or a name that the parser will not know
            else:
                return None
            at = end
            continue
        parts.append(word.text)
        at += 1
    return "".join(parts)


def _column(path: tuple[str, ...], subject: Subject) -> tuple[str, ...] | None:
    """The column of the table that a name in a condition is."""
    size = len(subject.parts)
    if size > 1 and len(path) > size and all(a.lower() == b.lower() for a, b in zip(path, subject.parts, strict=False)):
        path = path[size - 1 :]
    first = path[0].lower()
    if len(path) > 1 and first == subject.called.lower():
        inner = _own(path[1:], subject)
        if inner is not None:
            return inner
    if len(path) > 1 and first in subject.others:
        return None
    return _own(path, subject)


def _own(path: tuple[str, ...], subject: Subject) -> tuple[str, ...] | None:
    if path[0].lower() == METADATA and len(path) == 2 and path[1].lower() in subject.metadata:
        return (subject.metadata[path[1].lower()],)
    return path if subject.columns.find(path[0]) is not None else None
