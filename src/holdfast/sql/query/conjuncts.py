"""What the conditions of a SELECT say of the rows of one of its tables.

Spark applies every condition; what is found here only leaves out files. So a condition is taken where it is certain
that a row which fails it changes nothing of the answer, and left alone otherwise.

1. A condition of WHERE counts for a table that no outer join fills up with nulls; one of ON for the side of the join
   whose rows only come in by satisfying it.
2. Only conditions count that name columns of the one table, compare them with literals, and say the same each time.
3. A condition is cut loose from its text before it is understood: blocks hand it to the queries within them, where its
   names are others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

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
from holdfast.sql.query.references import Join, QueryBlock, Relation, Span, name_end, names
from holdfast.sql.text import Statement, TokenKind, statement_of

METADATA = "_metadata"
_QUERIES = frozenset(("SELECT", "EXISTS", "FROM"))
KEYWORDS = frozenset(("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE"))


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a condition: a column, or a word that only Spark knows."""

    path: tuple[str, ...]
    text: str = ""  # as written, where it may be something else than a column
    of: int | None = None  # what it is a column of, by number; None: its qualifier says


Condition: TypeAlias = tuple[str | Name, ...]  # text, and the names in it


@dataclass(frozen=True, slots=True)
class Either:
    """What is said of rows that are read in several places: all that one of them says."""

    ways: tuple[tuple[Said, ...], ...]

    @property
    def size(self) -> int:
        """How many conditions there are in it."""
        return sum(said.size if isinstance(said, Either) else 1 for way in self.ways for said in way)


Said: TypeAlias = Condition | Either


@dataclass(frozen=True, slots=True)
class Subject:
    """The table that conditions are about."""

    called: str
    columns: Struct
    others: Collection[str]  # what else the FROM clause has, by name
    metadata: Mapping[str, str] = field(default_factory=dict)  # fields of `_metadata`, and the columns they are
    parts: tuple[str, ...] = ()  # the whole name, where there is no alias
    at: int = 0  # which of the relations it is
    aliases: tuple[str, ...] = ()  # the names that the alias gives to columns


def conditions(statement: Statement, block: QueryBlock, at: int) -> Iterator[Span]:
    """The conditions of a block that may leave out rows of one of its relations."""
    if not block.is_plain:
        return
    if block.where is not None and stays(block, at):
        yield from conjuncts(statement, *block.where)
    joined, at = _joined(block, at)
    for other in range(max(at, 1), len(joined)):
        on, join = joined[other].on, joined[other].join
        if on is None:
            continue
        own = other == at and join in (Join.INNER, Join.LEFT, Join.HALF)
        before = other > at and join in (Join.INNER, Join.RIGHT) and _stays(joined, at, other)
        if own or before:
            yield from conjuncts(statement, *on)


def stays(block: QueryBlock, at: int) -> bool:
    """Whether each row that the joins of a block give has a row of one of its relations in it."""
    joined, at = _joined(block, at)
    return _stays(joined, at, len(joined))


def _joined(block: QueryBlock, at: int) -> tuple[tuple[Relation, ...], int]:
    """What one of the relations is joined with, and its number there.

    What a comma divides does not fill up with nulls what it divides from.
    """
    begins = max((i for i in range(at + 1) if block.relations[i].join is Join.FIRST), default=0)
    ends = next((i for i in range(at + 1, len(block.relations)) if block.relations[i].join is Join.FIRST), None)
    return block.relations[begins:ends], at - begins


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


def condition_of(statement: Statement, span: Span, given: Parameters) -> Condition | None:
    """A condition without its statement; None where a query or a value without a literal is in it."""
    at, last = span
    parts: list[str | Name] = []
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
        end = name_end(statement, at) if word.is_name and word.upper not in KEYWORDS else at
        if end > at and not (statement.upper(end) == "(" or statement.kind(end) is TokenKind.TEXT):
            parts.append(Name(names(statement, at, end), word.text if end - at == 1 and word.upper else ""))
            at = end
            continue
        parts.append(word.text)
        at += 1
    return tuple(parts)


def conditions_in(text: str | None) -> list[Said]:
    """The conditions of a text that stands alone."""
    statement = None if text is None else statement_of(text)
    if statement is None:
        return []
    found = (condition_of(statement, span, Parameters()) for span in conjuncts(statement, 0, len(statement.words)))
    return [each for each in found if each is not None]


def renamed(said: Iterable[Said], name: Callable[[Name], Name | None]) -> tuple[Said, ...]:
    """What is said, in other names; what has a name that there is no other for is left out."""
    return tuple(each for old in said if (each := _renamed(old, name)) is not None)


def _renamed(said: Said, name: Callable[[Name], Name | None]) -> Said | None:
    if isinstance(said, Either):
        ways = tuple(renamed(way, name) for way in said.ways)
        return Either(ways) if all(ways) else None
    parts: list[str | Name] = []
    for part in said:
        other = name(part) if isinstance(part, Name) else part
        if other is None:
            return None
        parts.append(other)
    return tuple(parts) if any(isinstance(part, Name) for part in parts) else None


def understood(said: Said, subject: Subject, *, zone: str = "UTC") -> str | None:
    """What is said as text about a table's own columns; None where it is about something else, or not understood."""
    if isinstance(said, Either):
        ways = [[text for each in way if (text := understood(each, subject, zone=zone))] for way in said.ways]
        return " OR ".join(f"({all_of(way)})" for way in ways) if all(ways) else None
    text = _about(said, subject)
    if text is None or unknown_names(text, subject.columns):
        return None
    parsed = parse(text, subject.columns, zone=zone)
    if not has_opaque(parsed):
        return text
    weaker = _weaker(parsed)
    rendered = _rendered(weaker)
    return rendered if rendered and parse(rendered, subject.columns, zone=zone) == weaker else None


def all_of(texts: Iterable[str]) -> str:
    """The condition that all of some are true."""
    return " AND ".join(f"({text})" for text in dict.fromkeys(texts))


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


def _about(condition: Condition, subject: Subject) -> str | None:
    parts: list[str] = []
    for part in condition:
        if isinstance(part, str):
            parts.append(part)
        elif (column := _column(part, subject)) is not None:
            parts.append(_path(column))
        elif part.text and subject.columns.find(part.text) is None:
            parts.append(part.text)  # a keyword, or a name that the parser will not know
        else:
            return None
    return "".join(parts)


def _column(name: Name, subject: Subject) -> tuple[str, ...] | None:
    """The column of the table that a name in a condition is."""
    path, size = name.path, len(subject.parts)
    if name.of is not None:
        return _own(path, subject) if name.of == subject.at else None
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
    if subject.aliases:
        given = {name.lower(): f.name for name, f in zip(subject.aliases, subject.columns, strict=False)}
        return (given[path[0].lower()], *path[1:]) if path[0].lower() in given else None
    return path if subject.columns.find(path[0]) is not None else None
