"""The conditions of a SELECT that can prune the files of one of its tables.

Spark applies every condition itself; pruning only leaves out files. So a condition is used only where a row that fails
it certainly does not change the answer.

1. A condition of WHERE is used for tables that no outer join pads with nulls; a condition of ON for the side of the
   join whose rows must satisfy it.
2. Only deterministic conditions are used that compare columns of one table with literals.
3. A condition is separated from its text before it is interpreted, because subqueries get it under other names.
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
from holdfast.sql.query.references import Join, QueryBlock, Relation
from holdfast.sql.text import Span, Statement, TokenKind, statement_of

METADATA = "_metadata"
_QUERIES = frozenset(("SELECT", "EXISTS", "FROM"))
KEYWORDS = frozenset(("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE"))


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a condition: a column, or a word that only Spark knows."""

    path: tuple[str, ...]
    text: str = ""  # as written, where it may be no column
    of: int | None = None  # the number of its relation or output column; None: its qualifier decides


Condition: TypeAlias = tuple[str | Name, ...]  # text, and the names in it


@dataclass(frozen=True, slots=True)
class Either:
    """A disjunction: a row is needed where all conditions of one of the readers hold."""

    readers: tuple[tuple[Conjunct, ...], ...]

    @property
    def size(self) -> int:
        """The number of conditions in it."""
        return sum(each.size if isinstance(each, Either) else 1 for reader in self.readers for each in reader)


Conjunct: TypeAlias = Condition | Either


@dataclass(frozen=True, slots=True)
class Subject:
    """The table that conditions are about."""

    qualifier: str
    columns: Struct
    others: Collection[str]  # the qualifiers of the other relations
    metadata: Mapping[str, str] = field(default_factory=dict)  # fields of `_metadata`, and the columns they are
    parts: tuple[str, ...] = ()  # the whole name, where there is no alias
    at: int = 0  # the number of its relation
    aliases: tuple[str, ...] = ()  # the column names in its alias


def conditions(statement: Statement, block: QueryBlock, at: int) -> Iterator[Span]:
    """The conditions of a block that every needed row of one of its relations satisfies."""
    if not block.is_plain:
        return
    if block.where is not None and stays(block, at):
        yield from split_conjunction(statement, *block.where)
    joined, at = _joined(block, at)
    for other in range(max(at, 1), len(joined)):
        on, join = joined[other].on, joined[other].join
        if on is None:
            continue
        own = other == at and join in (Join.INNER, Join.LEFT, Join.HALF)
        before = other > at and join in (Join.INNER, Join.RIGHT) and _stays(joined, at, other)
        if own or before:
            yield from split_conjunction(statement, *on)


def stays(block: QueryBlock, at: int) -> bool:
    """Whether each row of a block's joins holds a row of one of its relations."""
    joined, at = _joined(block, at)
    return _stays(joined, at, len(joined))


def _joined(block: QueryBlock, at: int) -> tuple[tuple[Relation, ...], int]:
    """The relations between two commas of FROM that hold one of them, and its number there.

    A join pads with nulls only relations on its own side of a comma.
    """
    begins = max((i for i in range(at + 1) if block.relations[i].join is Join.FIRST), default=0)
    ends = next((i for i in range(at + 1, len(block.relations)) if block.relations[i].join is Join.FIRST), None)
    return block.relations[begins:ends], at - begins


def _stays(joined: tuple[Relation, ...], at: int, end: int) -> bool:
    """Whether no join before `end` pads a relation with nulls or drops its columns."""
    if at and joined[at].join in (Join.LEFT, Join.FULL, Join.HALF):
        return False
    return all(r.join not in (Join.RIGHT, Join.FULL) for r in joined[at + 1 : end])


def split_conjunction(statement: Statement, first: int, last: int) -> list[Span]:
    """Split a condition at its ANDs."""
    if first >= last:
        return []
    if statement.upper(first) == "(" and statement.closes[first] == last - 1:
        return split_conjunction(statement, first + 1, last - 1)
    parts: list[Span] = []
    begin, at, cases, betweens = first, first, 0, 0
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
                parts.append((begin, at))
                begin = at + 1
        at = statement.after(at)
    parts.append((begin, last))
    if len(parts) == 1:
        return parts
    return [inner for part in parts for inner in split_conjunction(statement, *part)]


def condition_of(statement: Statement, span: Span, parameters: Parameters) -> Condition | None:
    """A condition without its statement; None where it holds a subquery or a value without a literal."""
    at, last = span
    parts: list[str | Name] = []
    while at < last:
        word = statement.words[at]
        if word.upper in _QUERIES:
            return None
        if parts and statement.words[at - 1].end < word.start:
            parts.append(" ")  # only where the text has one: an operator may be two marks
        if (parameter := parameters.at(statement, at)) is not None:
            try:
                parts.append(literal(parameter.value))
            except Invalid:
                return None
            at += parameter.words
            continue
        end = statement.name_end(at) if word.is_name and word.upper not in KEYWORDS else at
        if end > at and not (statement.upper(end) == "(" or statement.kind(end) is TokenKind.TEXT):
            parts.append(Name(statement.names(at, end), word.text if end - at == 1 and word.upper else ""))
            at = end
            continue
        parts.append(word.text)
        at += 1
    return tuple(parts)


def conditions_in(text: str | None) -> list[Conjunct]:
    """The conditions of a text that is a condition and nothing else."""
    statement = None if text is None else statement_of(text)
    if statement is None:
        return []
    spans = split_conjunction(statement, 0, len(statement.words))
    return [each for span in spans if (each := condition_of(statement, span, Parameters())) is not None]


def renamed(conditions: Iterable[Conjunct], rename: Callable[[Name], Name | None]) -> tuple[Conjunct, ...]:
    """Conditions under other names; one with a name that has no other name is left out."""
    return tuple(each for old in conditions if (each := _renamed(old, rename)) is not None)


def _renamed(condition: Conjunct, rename: Callable[[Name], Name | None]) -> Conjunct | None:
    if isinstance(condition, Either):
        readers = tuple(renamed(reader, rename) for reader in condition.readers)
        return Either(readers) if all(readers) else None
    parts: list[str | Name] = []
    for part in condition:
        other = rename(part) if isinstance(part, Name) else part
        if other is None:
            return None
        parts.append(other)
    return tuple(parts) if any(isinstance(part, Name) for part in parts) else None


def table_condition(condition: Conjunct, subject: Subject, *, zone: str = "UTC") -> str | None:
    """A condition as text about a table's own columns; None where it is about others, or only Spark understands it."""
    if isinstance(condition, Either):
        readers = [
            [text for each in reader if (text := table_condition(each, subject, zone=zone))]
            for reader in condition.readers
        ]
        return " OR ".join(f"({all_of(texts)})" for texts in readers) if all(readers) else None
    text = _in_own_names(condition, subject)
    if text is None or unknown_names(text, subject.columns):
        return None
    parsed = parse(text, subject.columns, zone=zone)
    if not has_opaque(parsed):
        return text
    weaker = _weaker(parsed)
    rendered = _rendered(weaker)
    return rendered if rendered and parse(rendered, subject.columns, zone=zone) == weaker else None


def all_of(texts: Iterable[str]) -> str:
    """The conjunction of some conditions."""
    return " AND ".join(f"({text})" for text in dict.fromkeys(texts))


def _weaker(predicate: Predicate) -> Predicate:
    """A predicate that another one implies, without the parts that only Spark understands."""
    match predicate:
        case And(parts):
            rest = tuple(p for p in map(_weaker, parts) if p != ALWAYS)
            return rest[0] if len(rest) == 1 else And(rest) if rest else ALWAYS
        case Or(parts):
            weaker = tuple(map(_weaker, parts))
            return ALWAYS if ALWAYS in weaker else Or(weaker)
        case _:
            return ALWAYS if has_opaque(predicate) else predicate


def _rendered(predicate: Predicate) -> str | None:
    """A predicate as text; None for a kind that has no text."""
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


def _in_own_names(condition: Condition, subject: Subject) -> str | None:
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
    """The column of the table that a name means; None where it means another table's."""
    path, size = name.path, len(subject.parts)
    if name.of is not None:
        return _own(path, subject) if name.of == subject.at else None
    if size > 1 and len(path) > size and all(a.lower() == b.lower() for a, b in zip(path, subject.parts, strict=False)):
        path = path[size - 1 :]
    first = path[0].lower()
    if len(path) > 1 and first == subject.qualifier.lower():
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
        columns = {alias.lower(): f.name for alias, f in zip(subject.aliases, subject.columns, strict=False)}
        return (columns[path[0].lower()], *path[1:]) if path[0].lower() in columns else None
    return path if subject.columns.find(path[0]) is not None else None
