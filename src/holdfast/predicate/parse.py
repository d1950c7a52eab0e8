"""Parses conditions in Spark SQL into predicates, for pruning files.

Spark evaluates the condition itself, so a part whose meaning is not certain becomes Opaque, which prunes nothing.

1. Never raises for a text that Spark might accept.
2. A part that is not opaque has Spark's truth value on every row, with any session settings.
3. Columns resolve without regard to case and are spelled as in the schema; a reference that the schema does not have (a
   metadata column, a function without parentheses) makes its part opaque.
"""

from __future__ import annotations

import decimal
import re
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from holdfast.predicate.literal import (
    LARGEST_PRECISION,
    Literal,
    LiteralKind,
    compare,
    date_of,
    double_of,
    float_of,
    one_of,
    timestamp_of,
)
from holdfast.predicate.records import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Op,
    Opaque,
    Or,
    Predicate,
    StartsWith,
)
from holdfast.schema.types import DataType, Field, Primitive, Struct

_OPS: dict[type[exp.Expr], Op] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
    exp.NullSafeEQ: Op.SAME,
}
_MIRRORED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_INTEGER_CASTS = {
    exp.DataType.Type.TINYINT: 8,
    exp.DataType.Type.SMALLINT: 16,
    exp.DataType.Type.INT: 32,
    exp.DataType.Type.BIGINT: 64,
}
_INSTANTS = frozenset({exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ})
_NOT_NUMBERS = {"nan": float("nan"), "infinity": float("inf"), "-infinity": float("-inf")}
# Text that Spark's lexer and sqlglot's may split into different tokens.
_COMMENT_OR_VARIABLE = re.compile(r"--|/\*|\$\{")
_RAW_STRING = re.compile(r"\b[rR]['\"]")
# Session settings decide whether these are an escape or a character, and a string or a name.
_TWO_MEANINGS = re.compile(r'[\\"]')
_LIKE_WILDCARD = re.compile(r"[%_]")

_BARE_FUNCTIONS = frozenset(
    [
        *("current_date", "current_timestamp", "current_time", "localtimestamp", "current_user", "user"),
        *("session_user", "current_catalog", "current_database", "current_schema", "current_timezone", "default"),
    ]
)


def parse(text: str, schema: Struct, *, zone: str = "UTC") -> Predicate:
    """The predicate of a condition; `zone` is the session's time zone."""
    tree = syntax_tree(text)
    return Opaque(text.strip()) if tree is None else read(tree, text, schema, zone=zone)


def read(tree: exp.Expr, text: str, schema: Struct, *, zone: str = "UTC") -> Predicate:
    """The predicate of a syntax tree or a part of one; `text` is what it was parsed from."""
    reader = _PredicateReader(
        schema,
        zone,
        strings=not _TWO_MEANINGS.search(text),
        binaries=not re.search(r"\b0[xX]", text),
    )
    try:
        return reader.predicate(tree)
    except RecursionError:
        return Opaque(text.strip())


def unknown_names(text: str, schema: Struct) -> tuple[str, ...]:
    """Names in a condition that are no column of the schema; none where the condition cannot be parsed.

    Names that may be something else do not count: parts of a path, variables of a lambda, names in a subquery, and
    functions that are called without parentheses.
    """
    tree = syntax_tree(text)
    if tree is None or tree.find(exp.Query, exp.Lambda):
        return ()
    names = [node.name for node in tree.find_all(exp.Column) if not node.table and not isinstance(node.parent, exp.Dot)]
    return tuple(n for n in names if schema.find(n) is None and n.lower() not in _BARE_FUNCTIONS)


@lru_cache(16)  # one condition is parsed several times, and a long list of values takes long
def syntax_tree(text: str) -> exp.Expr | None:
    """The syntax tree of an expression, which callers must not change; None where Spark might parse it otherwise."""
    if _COMMENT_OR_VARIABLE.search(text) or ("\\" in text and ('"' in text or _RAW_STRING.search(text))):
        return None
    try:
        trees = sqlglot.parse(text, dialect="spark")
    except (SqlglotError, RecursionError, ValueError):
        return None
    return trees[0] if len(trees) == 1 else None


@dataclass(frozen=True, slots=True)
class _PredicateReader:
    """Turns a syntax tree into a predicate; `strings` and `binaries` say whether such literals have one meaning."""

    schema: Struct
    zone: str
    strings: bool
    binaries: bool

    def predicate(self, node: exp.Expr) -> Predicate:
        certain = self.certain(node)
        return self.opaque(node) if certain is None else certain

    def certain(self, node: exp.Expr) -> Predicate | None:
        match node:
            case exp.Paren():
                return self.certain(node.this)
            case exp.And():
                return And(tuple(self.predicate(part) for part in node.flatten(unnest=True)))
            case exp.Or():
                return _merged(tuple(self.predicate(part) for part in node.flatten(unnest=True)))
            case exp.Not() if _plain(node, "this"):
                inner = self.certain(node.this)
                return None if inner is None else Not(inner)
            case exp.Boolean():
                return Constant(bool(node.this))
            case exp.Null():
                return Constant(None)
            case exp.Column() | exp.Dot():
                return self.flag(node, Op.EQ, True)
            case exp.Is() if _plain(node, "this", "expression"):
                return self.is_(node)
            case exp.NullSafeNEQ() if _plain(node, "this", "expression"):
                same = self.comparison(Op.SAME, node)
                return None if same is None else Not(same)
            case exp.Between() if _plain(node, "this", "low", "high"):
                return self.between(node)
            case exp.In() if _plain(node, "this", "expressions"):
                return self.in_(node)
            case exp.Like() if _plain(node, "this", "expression", "negate"):
                like = self.like(node.this, node.expression)
                return Not(like) if like is not None and node.args.get("negate") else like
            case exp.StartsWith() if _plain(node, "this", "expression"):
                return self.starts_with(node)
            case exp.Anonymous() if node.name.lower() in ("isnull", "isnotnull") and len(node.expressions) == 1:
                return self.null_test(node.expressions[0], negated=node.name.lower() == "isnotnull")
            case _ if type(node) in _OPS and _plain(node, "this", "expression"):
                return self.comparison(_OPS[type(node)], node)
            case _:
                return None

    def opaque(self, node: exp.Expr) -> Opaque:
        fields = (self.field(part) for part in node.find_all(exp.Column, exp.Dot))
        columns = tuple(dict.fromkeys(column for column, _ in filter(None, fields)))
        return Opaque(node.sql(dialect="spark", unsupported_level=ErrorLevel.IGNORE), columns)

    def comparison(self, op: Op, node: exp.Expr) -> Predicate | None:
        first, second = node.args["this"], node.args["expression"]
        if (target := self.field(first)) and (literal := self.literal(second)):
            return self.compare(op, target, literal)
        if (target := self.field(second)) and (literal := self.literal(first)):
            return self.compare(_MIRRORED.get(op, op), target, literal)
        return None

    def compare(self, op: Op, target: tuple[Column, Field], literal: Literal) -> Predicate | None:
        column, field = target
        if literal.kind is LiteralKind.NULL and op is Op.SAME:
            return IsNull(column)
        return compare(op, column, field.type, literal, self.zone) if compares_as_stored(field) else None

    def flag(self, node: exp.Expr, op: Op, value: bool) -> Predicate | None:
        target = self.field(node)
        return self.compare(op, target, Literal(LiteralKind.BOOLEAN, value)) if target else None

    def is_(self, node: exp.Is) -> Predicate | None:
        match node.expression:
            case exp.Null():
                return self.null_test(node.this, negated=False)
            case exp.Boolean() as flag:
                return self.flag(node.this, Op.SAME, bool(flag.this))
            case _:
                return None

    def null_test(self, node: exp.Expr, *, negated: bool) -> Predicate | None:
        target = self.field(node)
        if target is None:
            return None
        return Not(IsNull(target[0])) if negated else IsNull(target[0])

    def between(self, node: exp.Between) -> Predicate | None:
        target = self.field(node.this)
        low, high = self.literal(node.args["low"]), self.literal(node.args["high"])
        if not (target and low and high):
            return None
        above, below = self.compare(Op.GE, target, low), self.compare(Op.LE, target, high)
        return And((above, below)) if above is not None and below is not None else None

    def in_(self, node: exp.In) -> Predicate | None:
        target = self.field(node.this)
        literals = [self.literal(e) for e in node.expressions]
        certain = [x for x in literals if x is not None]
        if target is None or not certain or len(certain) < len(literals) or not compares_as_stored(target[1]):
            return None
        return one_of(target[0], target[1].type, certain, self.zone)

    def like(self, subject: exp.Expr, pattern: exp.Expr) -> Predicate | None:
        if (target := self.text_test(subject, pattern)) is None:
            return None
        column, wildcards = target
        prefix = _LIKE_WILDCARD.split(wildcards, maxsplit=1)[0]
        match wildcards[len(prefix) :]:
            case "":
                return Compare(Op.EQ, column, prefix)
            case rest if not rest.strip("%"):
                return StartsWith(column, prefix)
            case _:
                whole = exp.Like(this=subject.copy(), expression=pattern.copy())
                return And((StartsWith(column, prefix), self.opaque(whole))) if prefix else None

    def starts_with(self, node: exp.StartsWith) -> Predicate | None:
        target = self.text_test(node.this, node.expression)
        return None if target is None else StartsWith(*target)

    def text_test(self, subject: exp.Expr, pattern: exp.Expr) -> tuple[Column, str] | None:
        """A string column and the literal it is tested with."""
        target, literal = self.field(subject), self.literal(pattern)
        if target is None or literal is None or not _is_text(target[1]) or not isinstance(literal.value, str):
            return None
        return target[0], literal.value

    def field(self, node: exp.Expr) -> tuple[Column, Field] | None:
        """The column of a reference, and its field."""
        type_: DataType = self.schema
        column: list[str] = []
        field: Field | None = None
        for name in name_parts(node):
            field = type_.find(name) if isinstance(type_, Struct) else None
            if field is None:
                return None
            column.append(field.name)
            type_ = field.type
        return None if field is None else (tuple(column), field)

    def literal(self, node: exp.Expr) -> Literal | None:
        match node:
            case exp.Paren():
                return self.literal(node.this)
            case exp.Null():
                return Literal(LiteralKind.NULL)
            case exp.Boolean():
                return Literal(LiteralKind.BOOLEAN, bool(node.this))
            case exp.Literal() if node.is_string:
                return Literal(LiteralKind.STRING, str(node.this)) if self.strings else None
            case exp.Literal():
                return number_of(str(node.this))
            case exp.Neg():
                return _negative(self.literal(node.this))
            case exp.HexString() if self.binaries and _plain(node, "this"):
                return _binary(str(node.this))
            case exp.Cast() if type(node) is not exp.JSONCast and _plain(node, "this", "to", "safe"):
                inner = self.literal(node.this)
                return None if inner is None else _cast(inner, node.to)
            case _:
                return None


def _plain(node: exp.Expr, *known: str) -> bool:
    """Whether a node has only the named arguments: an unknown one may change its meaning."""
    return not any(value for name, value in node.args.items() if name not in known)


def name_parts(node: exp.Expr) -> list[str]:
    """The names of a reference; none for anything else."""
    match node:
        case exp.Paren():
            return name_parts(node.this)
        case exp.Column() if _plain(node, "this", "table", "db", "catalog"):
            parts = node.parts
            return [p.name for p in parts] if all(isinstance(p, exp.Identifier) for p in parts) else []
        case exp.Dot() if isinstance(node.expression, exp.Identifier):
            above = name_parts(node.this)
            return [*above, node.expression.name] if above else []
        case _:
            return []


def compares_as_stored(field: Field) -> bool:
    """Whether values of the column are compared as stored: not by a collation, nor padded as CHAR."""
    collated = "__COLLATIONS" in field.metadata
    padded = str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", "")).lower().startswith("char")
    return not collated and not padded


def _is_text(field: Field) -> bool:
    return field.type == Primitive("string") and compares_as_stored(field)


def _merged(parts: tuple[Predicate, ...]) -> Predicate:
    """An OR in which equalities on one column become one IN."""
    equalities: dict[Column, list[Predicate]] = {}
    for part in parts:
        if isinstance(part, Compare) and part.op is Op.EQ:
            equalities.setdefault(part.column, []).append(part)
    rest = [p for p in parts if not (isinstance(p, Compare) and p.op is Op.EQ)]
    lists = [
        equals[0] if len(equals) == 1 else In(column, tuple(e.value for e in equals if isinstance(e, Compare)))
        for column, equals in equalities.items()
    ]
    alternatives = (*lists, *rest)
    return alternatives[0] if len(alternatives) == 1 else Or(alternatives)


def number_of(text: str) -> Literal | None:
    """The literal of a number, where it has one meaning with every session setting."""
    if not re.fullmatch(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
        return None
    if "e" in text.lower():
        return None if double_of(text) is None else Literal(LiteralKind.EXPONENT, decimal.Decimal(text))
    if len(text.replace(".", "").lstrip("0")) > LARGEST_PRECISION:
        return None
    kind = LiteralKind.DECIMAL if "." in text or int(text) > 2**63 else LiteralKind.INTEGER
    return Literal(kind, decimal.Decimal(text))


def _negative(literal: Literal | None) -> Literal | None:
    match literal:
        case Literal(kind, decimal.Decimal() as value, declared):
            return Literal(kind, value.copy_negate(), declared)
        case Literal(kind, float() as value):
            return Literal(kind, -value)
        case _:
            return None


def _binary(text: str) -> Literal | None:
    try:
        return Literal(LiteralKind.BINARY, bytes.fromhex(text))
    except ValueError:
        return None


def _cast(literal: Literal, to: exp.DataType) -> Literal | None:
    """A literal under a cast that changes its type and not its meaning."""
    match to.this, literal:
        case (kind, Literal(LiteralKind.INTEGER, decimal.Decimal() as value)) if kind in _INTEGER_CASTS:
            half = 2 ** (_INTEGER_CASTS[kind] - 1)
            return Literal(LiteralKind.INTEGER, value) if -half <= value < half else None
        case (exp.DataType.Type.DECIMAL, _):
            return _decimal(literal, to)
        case (
            exp.DataType.Type.DOUBLE,
            Literal(LiteralKind.INTEGER | LiteralKind.DECIMAL | LiteralKind.EXPONENT, value),
        ):
            double = double_of(str(value))
            return None if double is None else Literal(LiteralKind.DOUBLE, double)
        case (exp.DataType.Type.FLOAT, Literal(LiteralKind.INTEGER | LiteralKind.DECIMAL, value)):
            single = float_of(str(value))
            return None if single is None else Literal(LiteralKind.FLOAT, single)
        case (exp.DataType.Type.DOUBLE | exp.DataType.Type.FLOAT as kind, Literal(LiteralKind.STRING, str() as text)):
            special = _NOT_NUMBERS.get(text.lower())
            whole = LiteralKind.DOUBLE if kind is exp.DataType.Type.DOUBLE else LiteralKind.FLOAT
            return None if special is None else Literal(whole, special)
        case (exp.DataType.Type.DATE, Literal(LiteralKind.STRING, str() as text)):
            day = date_of(text)
            return None if day is None else Literal(LiteralKind.DATE, day)
        case (kind, Literal(LiteralKind.STRING, str() as text)) if kind in _INSTANTS:
            moment = timestamp_of(text)
            return None if moment is None else Literal(LiteralKind.TIMESTAMP, moment)
        case (exp.DataType.Type.TIMESTAMPNTZ, Literal(LiteralKind.STRING, str() as text)):
            moment = timestamp_of(text)
            return None if moment is None or moment.tzinfo else Literal(LiteralKind.TIMESTAMP_NTZ, moment)
        case _:
            return None


def _decimal(literal: Literal, to: exp.DataType) -> Literal | None:
    """A number as decimal(p, s), where it has no more digits than that."""
    params = [str(p.this.this) for p in to.expressions]
    value = literal.value
    if isinstance(value, str) and re.fullmatch(r"\d{1,38}(\.\d{1,38})?", value, re.ASCII):
        value = decimal.Decimal(value)
    if literal.kind not in (LiteralKind.INTEGER, LiteralKind.DECIMAL, LiteralKind.STRING) or not isinstance(
        value, decimal.Decimal
    ):
        return None
    if not all(re.fullmatch(r"[0-9]{1,2}", p) for p in params) or not 1 <= len(params) <= 2:
        return None
    precision, scale = int(params[0]), int(params[1]) if len(params) == 2 else 0
    if not scale <= precision <= LARGEST_PRECISION:
        return None
    exact = decimal.Context(prec=200)
    rescaled = value.quantize(decimal.Decimal(1).scaleb(-scale, exact), context=exact)
    fits = rescaled == value and value.copy_abs() < 10 ** (precision - scale)
    return Literal(LiteralKind.DECIMAL, rescaled, (precision, scale)) if fits else None
