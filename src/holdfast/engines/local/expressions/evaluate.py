"""Evaluates Spark SQL expressions on Arrow batches.

It knows column references, literals, arithmetic, comparisons, logic, CASE and a handful of functions. An expression is
bound once to the columns it may name, and then run on any number of batches.

1. What it does not understand for certain is refused when the expression is bound, before a row is read.
2. Three-valued logic and types as Spark has them in ANSI mode, whatever the session's settings.
3. An operand that Spark would not look at for a row (behind AND, OR, CASE, IF, COALESCE) is not computed for that row.
4. Names resolve without regard to case; a name before a dot is an alias if it can be one, else a struct.
"""

from __future__ import annotations

import datetime
import decimal
import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from holdfast.engines.local.expressions import values as ops
from holdfast.engines.local.expressions.evaluable import Evaluable, Scope, constant, conversion, literal_value, narrow
from holdfast.engines.local.expressions.values import BOOLEAN, DATE, DOUBLE, INSTANT, INTEGER, LOCAL_TIME, VOID
from holdfast.errors import Invalid, UnknownColumn, Unsupported
from holdfast.predicate.literal import (
    INTEGER_BITS,
    LARGEST_PRECISION,
    Literal,
    LiteralKind,
    date_of,
    instant_of,
    timestamp_of,
)
from holdfast.predicate.parse import name_parts, number_of, syntax_tree
from holdfast.predicate.records import Op
from holdfast.schema.arrow import arrow_type
from holdfast.schema.show import type_text
from holdfast.schema.types import LONG, STRING, DataType, Decimal, Field, Primitive, Struct

_COMPARISONS: dict[type[exp.Expr], Op] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
    exp.NullSafeEQ: Op.SAME,
}
_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
# Spark and sqlglot bind these differently where they stand next to one another without parentheses.
_LOOSE: tuple[type[exp.Expr], ...] = (exp.And, exp.Or, exp.Not, exp.In, exp.Like, exp.Between, exp.Is, *_COMPARISONS)
_CASTS = {
    exp.DataType.Type.TINYINT: Primitive("byte"),
    exp.DataType.Type.SMALLINT: Primitive("short"),
    exp.DataType.Type.INT: INTEGER,
    exp.DataType.Type.BIGINT: LONG,
    exp.DataType.Type.FLOAT: Primitive("float"),
    exp.DataType.Type.DOUBLE: DOUBLE,
    exp.DataType.Type.TEXT: STRING,
    exp.DataType.Type.BOOLEAN: BOOLEAN,
    exp.DataType.Type.DATE: DATE,
    exp.DataType.Type.TIMESTAMP: INSTANT,
    exp.DataType.Type.TIMESTAMPTZ: INSTANT,
    exp.DataType.Type.TIMESTAMPLTZ: INSTANT,
    exp.DataType.Type.TIMESTAMPNTZ: LOCAL_TIME,
}
_QUOTED = re.compile(r"`[^`]*`|'[^']*'")
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_NOT_BY_VALUE = ("__COLLATIONS", "__CHAR_VARCHAR_TYPE_STRING")


def evaluable(expression: Any, relations: Sequence[Scope], *, zone: str = "UTC") -> Evaluable:
    """Make an expression ready; `zone` is where times without one are."""
    if not isinstance(expression, str):
        raise Unsupported(f"only Spark can evaluate the Column {expression}: give SQL text, or use a Spark session")
    tree = syntax_tree(expression)
    if tree is None:
        raise _refusal(expression)
    try:
        return _Maker(tuple(relations), expression.strip(), zone, alone=bool(name_parts(tree))).made(tree)
    except RecursionError as error:
        raise _refusal(expression) from error


def condition(expression: Any, relations: Sequence[Scope], *, zone: str = "UTC") -> Evaluable:
    """Make an expression ready that has a truth value."""
    value = evaluable(expression, relations, zone=zone)
    if value.type not in (BOOLEAN, VOID):
        raise Invalid(f"`{value.text}` is {type_text(value.type)}, where a condition must be true or false")
    return conversion(value, BOOLEAN, zone) or value


@dataclass(frozen=True, slots=True)
class _Maker:
    relations: tuple[Scope, ...]
    text: str
    zone: str
    alone: bool  # whether the expression is a column and nothing else

    def made(self, node: exp.Expr) -> Evaluable:
        match node:
            case exp.Paren():
                return self.made(node.this)
            case exp.Column() | exp.Dot():
                return self.column(node)
            case exp.Literal() | exp.Null() | exp.Boolean() | exp.HexString():
                return self.literal(node)
            case exp.Neg():
                return self.negative(node)
            case exp.And() | exp.Or():
                return reduce(self.logic(node), (self.truth(part) for part in node.flatten()))
            case exp.Not():
                inner = self.truth(node.this)
                return self.derived(BOOLEAN, [inner], pc.invert)
            case exp.Is():
                return self.is_(node)
            case exp.NullSafeNEQ():
                return self.derived(BOOLEAN, [self.comparison(Op.SAME, node.this, node.expression)], pc.invert)
            case exp.Between() if not node.args.get("symmetric"):
                low = self.comparison(Op.GE, node.this, node.args["low"])
                high = self.comparison(Op.LE, node.this, node.args["high"])
                return self.derived(BOOLEAN, [low, high], pc.and_kleene)
            case exp.In() if not (set(node.args) - {"this", "expressions"}):
                return self.member(node)
            case exp.Like():
                return self.like(node)
            case exp.Case():
                return self.case(node)
            case exp.If() if node.args.get("false") is not None:
                return self.choice([(self.truth(node.this), self.made(node.args["true"]))], node.args.get("false"))
            case exp.Coalesce() if not node.args.get("is_nvl2"):
                return self.coalesce([self.made(part) for part in (node.this, *node.expressions)])
            case exp.DPipe():
                return self.joined([self.operand(node.this), self.operand(node.expression, exp.Add, exp.Sub)])
            case exp.Concat() if not node.args.get("safe"):
                return self.quoted(node)
            case exp.Concat():
                return self.joined([self.made(part) for part in node.expressions])
            case exp.Upper() | exp.Lower():
                return self.function(node, STRING, lambda x: ops.cased(x, upper=isinstance(node, exp.Upper)))
            case exp.Length() if set(node.args) <= {"this", "binary"}:
                return self.function(node, INTEGER, pc.utf8_length)
            case exp.Abs():
                inner = self.number(node.this)
                return self.derived(inner.type, [inner], pc.abs_checked)
            case exp.Cast() if not node.args.get("safe") and not node.args.get("format"):
                return self.cast(node)
            case exp.Anonymous() if node.name.lower() in ("isnull", "isnotnull") and len(node.expressions) == 1:
                test = pc.is_null if node.name.lower() == "isnull" else pc.is_valid
                return self.derived(BOOLEAN, [self.made(node.expressions[0])], test)
            case _ if type(node) in _COMPARISONS:
                return self.comparison(_COMPARISONS[type(node)], node.this, node.expression)
            case _ if type(node) in _OPERATORS:
                return self.calculation(_OPERATORS[type(node)], node)
            case _:
                raise self.refusal(node)

    def refusal(self, node: exp.Expr) -> Unsupported:
        return _refusal(node.sql(dialect="spark", unsupported_level=ErrorLevel.IGNORE))

    def derived(self, type_: DataType, parts: Sequence[Evaluable], compute: Callable[..., pa.Array]) -> Evaluable:
        columns = frozenset[str]().union(*(part.columns for part in parts))
        return Evaluable(type_, columns, lambda rows: compute(*(part.run(rows) for part in parts)), self.text)

    def operand(self, node: exp.Expr, *refused: type[exp.Expr]) -> Evaluable:
        """A part of an operator whose reach is the same for Spark as it is here."""
        if isinstance(node, (*_LOOSE, *refused)):
            shown = node.sql(dialect="spark", unsupported_level=ErrorLevel.IGNORE)
            raise Unsupported(f"put parentheses around `{shown}` in `{self.text}`: it is not clear how far it reaches")
        return self.made(node)

    def truth(self, node: exp.Expr) -> Evaluable:
        value = self.made(node)
        if value.type not in (BOOLEAN, VOID):
            raise Invalid(f"{type_text(value.type)} is neither true nor false, in `{self.text}`")
        return self.converted(value, BOOLEAN)

    def converted(self, value: Evaluable, type_: DataType) -> Evaluable:
        result = conversion(value, type_, self.zone)
        if result is None:
            raise Unsupported(
                f"only Spark can convert {type_text(value.type)} to {type_text(type_)}, as in `{self.text}`"
            )
        return result

    def together(self, parts: Sequence[Evaluable]) -> list[Evaluable]:
        """Values of several types in the one they meet in."""
        types = {part.type for part in parts}
        texts = [part for part in parts if part.type == STRING and part.literal is not None]
        if texts and len(types) > 1:  # a text next to a number, a date or a time is read as one
            other = reduce(self.common, (part.type for part in parts if part not in texts))
            if other not in (STRING, VOID):
                return [self.spelled(p, other) if p in texts else self.converted(p, other) for p in parts]
        meeting = reduce(self.common, (part.type for part in parts))
        return [self.converted(part, meeting) for part in parts]

    def common(self, a: DataType, b: DataType) -> DataType:
        type_ = ops.common(a, b)
        if type_ is None:
            raise Unsupported(f"only Spark can bring {type_text(a)} and {type_text(b)} together, as in `{self.text}`")
        return type_

    def spelled(self, text: Evaluable, type_: DataType) -> Evaluable:
        assert text.literal is not None, "only a literal is known beforehand"
        value = str(text.literal.value)
        if isinstance(type_, Primitive) and type_.name in INTEGER_BITS and _WHOLE_NUMBER.fullmatch(value):
            return self.converted(literal_value(Literal(LiteralKind.INTEGER, decimal.Decimal(value)), self.text), type_)
        if type_ in (DATE, INSTANT, LOCAL_TIME):
            return self.moment(value, type_)
        raise Unsupported(f"only Spark can compare {value!r} with {type_text(type_)}, as in `{self.text}`")

    def moment(self, text: str, type_: DataType) -> Evaluable:
        """A date or time as a literal, where every setting gives the text one meaning."""
        time = timestamp_of(text)
        value: datetime.date | None = None
        match type_:
            case Primitive("date"):
                value = date_of(text)
            case Primitive("timestamp"):
                value = None if time is None else instant_of(time, self.zone)
            case _:
                value = time if time is not None and time.tzinfo is None else None
        if value is None:
            raise Unsupported(f"only Spark can read {text!r} as {type_text(type_)}, as in `{self.text}`")
        return constant(pa.scalar(value, arrow_type(type_)), type_, self.text)

    def column(self, node: exp.Expr) -> Evaluable:
        names = name_parts(node)
        if not names:
            raise self.refusal(node)
        relation, path = self.resolved(names)
        top = relation.schema.find(path[0])
        assert top is not None, "it was found before"
        field, steps = top, []
        for name in path[1:]:
            inner = field.type.find(name) if isinstance(field.type, Struct) else None
            if inner is None:
                raise UnknownColumn(f"{field.name} has no field {name!r}, in `{self.text}`", column=".".join(names))
            field = inner
            steps.append(field.name)
        self.check_by_value(field)
        column = relation.prefix + top.name
        if not steps:
            return Evaluable(field.type, frozenset((column,)), lambda rows: rows.column(column), self.text)
        return Evaluable(
            field.type, frozenset((column,)), lambda rows: pc.struct_field(rows.column(column), steps), self.text
        )

    def resolved(self, names: list[str]) -> tuple[Scope, list[str]]:
        first = names[0].lower()
        called = [r for r in self.relations if r.alias is not None and r.alias.lower() == first and len(names) > 1]
        candidates = [(r, names[1:]) for r in called if r.schema.find(names[1]) is not None]
        candidates = candidates or [(r, names) for r in self.relations if r.schema.find(names[0]) is not None]
        if len(candidates) == 1:
            return candidates[0]
        written = ".".join(names)
        if candidates:
            raise Invalid(f"{written} may be a column of either side, in `{self.text}`: put an alias before it")
        wanted, known = (names[1], called) if called else (names[0], self.relations)
        near = difflib.get_close_matches(wanted, [name for r in known for name in r.schema.names], n=3)
        there = ", ".join(name for r in known for name in r.schema.names[:5]) or "no column"
        text = f"there is {there}, and a text is written with quotes of its own, as in \"'{wanted}'\""
        hint = f"did you mean {' or '.join(near)}?" if near else text
        raise UnknownColumn(f"there is no column {written!r}, in `{self.text}`; {hint}", column=written)

    def check_by_value(self, field: Field) -> None:
        if not self.alone and any(name in field.metadata for name in _NOT_BY_VALUE):
            raise Unsupported(f"only Spark can evaluate `{self.text}`: {field.name} has a collation or a fixed length")

    def literal(self, node: exp.Expr) -> Evaluable:
        match node:
            case exp.Null():
                return literal_value(Literal(LiteralKind.NULL), self.text)
            case exp.Boolean():
                return literal_value(Literal(LiteralKind.BOOLEAN, bool(node.this)), self.text)
            case exp.Literal() if node.is_string and not re.search(r'[\\"]', self.text):
                return literal_value(Literal(LiteralKind.STRING, str(node.this)), self.text)
            case exp.Literal() if not node.is_string and (number := number_of(str(node.this))) is not None:
                return literal_value(number, self.text)
            case _:
                raise self.refusal(node)

    def quoted(self, node: exp.Concat) -> Evaluable:
        """A string with quotes in it, each written twice: to the parser, several strings one after the other."""
        strings = [token for token in _QUOTED.finditer(self.text) if token[0].startswith("'")]
        apart = any(self.text[a.end() : b.start()].isspace() for a, b in pairwise(strings))
        if apart or not all(isinstance(part, exp.Literal) for part in node.expressions):
            raise self.refusal(node)
        whole = exp.Literal.string("'".join(str(part.this) for part in node.expressions))
        return self.literal(whole)

    def negative(self, node: exp.Neg) -> Evaluable:
        inner = self.number(node.this)
        if inner.literal is not None and isinstance(inner.literal.value, decimal.Decimal):
            return literal_value(Literal(inner.literal.kind, inner.literal.value.copy_negate()), self.text)
        return self.derived(inner.type, [inner], pc.negate_checked)

    def number(self, node: exp.Expr) -> Evaluable:
        value = self.operand(node)
        if ops.as_decimal(value.type) is None and value.type not in (Primitive("float"), DOUBLE):
            raise Unsupported(f"only Spark can calculate with {type_text(value.type)}, as in `{self.text}`")
        return value

    def calculation(self, operator: str, node: exp.Expr) -> Evaluable:
        left, right = (self.number(part) for part in (node.this, node.args["expression"]))
        if any(isinstance(x.type, Decimal) for x in (left, right)) and ops.common(left.type, right.type) != DOUBLE:
            left, right = narrow(left), narrow(right)
        type_ = ops.calculated_type(operator, left.type, right.type)
        if type_ is None:
            raise self.refusal(node)
        if isinstance(type_, Decimal):
            pair = [self.converted(x, d) for x in (left, right) if (d := ops.as_decimal(x.type)) is not None]
        else:
            pair = [self.converted(left, type_), self.converted(right, type_)]
        return self.derived(type_, pair, lambda a, b: ops.calculated(operator, a, b))

    def comparison(self, op: Op, left: exp.Expr, right: exp.Expr) -> Evaluable:
        pair = self.together([self.operand(left), self.operand(right)])
        if not isinstance(pair[0].type, Primitive | Decimal) or pair[0].type == Primitive("variant"):
            raise Unsupported(f"only Spark can compare {type_text(pair[0].type)}, as in `{self.text}`")
        return self.derived(BOOLEAN, pair, lambda a, b: ops.compared(op, a, b))

    def logic(self, node: exp.Expr) -> Callable[[Evaluable, Evaluable], Evaluable]:
        kernel, settled = (pc.and_kleene, False) if isinstance(node, exp.And) else (pc.or_kleene, True)

        def both(left: Evaluable, right: Evaluable) -> Evaluable:
            def run(rows: pa.RecordBatch) -> pa.Array:
                known = left.run(rows)
                open_ = np.flatnonzero(np.asarray(pc.fill_null(pc.not_equal(known, settled), True)))
                return kernel(known, ops.placed([(open_, right.on(rows, open_))], rows.num_rows, pa.bool_()))

            return Evaluable(BOOLEAN, left.columns | right.columns, run, self.text)

        return both

    def is_(self, node: exp.Is) -> Evaluable:
        inner = self.made(node.this)
        match node.expression:
            case exp.Null():
                return self.derived(BOOLEAN, [inner], pc.is_null)
            case exp.Boolean() as wanted if inner.type in (BOOLEAN, VOID):
                pair = [self.converted(inner, BOOLEAN), self.literal(wanted)]
                return self.derived(BOOLEAN, pair, lambda a, b: ops.compared(Op.SAME, a, b))
            case _:
                raise self.refusal(node)

    def member(self, node: exp.In) -> Evaluable:
        if not all(
            isinstance(part, exp.Literal | exp.Neg | exp.Null | exp.Boolean | exp.Cast) for part in node.expressions
        ):
            raise self.refusal(node)
        value, *wanted = self.together([self.operand(node.this), *(self.made(part) for part in node.expressions)])
        if not isinstance(value.type, Primitive | Decimal) or any(part.columns for part in wanted):
            raise self.refusal(node)
        one = pa.RecordBatch.from_arrays([pa.array([0])], ["row"])
        members = pa.concat_arrays([part.run(one) for part in wanted])
        return self.derived(BOOLEAN, [value], lambda x: ops.is_member(x, members))

    def like(self, node: exp.Like) -> Evaluable:
        subject, pattern = self.operand(node.this), self.operand(node.expression)
        if subject.type != STRING or pattern.literal is None or pattern.type != STRING:
            raise self.refusal(node)
        text = str(pattern.literal.value)
        matches = self.derived(BOOLEAN, [subject], lambda x: pc.match_like(x, text))
        return self.derived(BOOLEAN, [matches], pc.invert) if node.args.get("negate") else matches

    def case(self, node: exp.Case) -> Evaluable:
        branches = []
        for branch in node.args["ifs"]:
            subject = node.args.get("this")
            when = self.truth(branch.this) if subject is None else self.comparison(Op.EQ, subject, branch.this)
            branches.append((when, self.made(branch.args["true"])))
        return self.choice(branches, node.args.get("default"))

    def choice(self, branches: list[tuple[Evaluable, Evaluable]], otherwise: exp.Expr | None) -> Evaluable:
        last = literal_value(Literal(LiteralKind.NULL), self.text) if otherwise is None else self.made(otherwise)
        *values, last = self.together([*(value for _, value in branches), last])
        whens = [when for when, _ in branches]

        def run(rows: pa.RecordBatch) -> pa.Array:
            left, pieces = np.arange(rows.num_rows), []
            for when, value in zip(whens, values, strict=True):
                taken = np.asarray(pc.fill_null(when.on(rows, left), False))
                pieces.append((left[taken], value.on(rows, left[taken])))
                left = left[~taken]
            return ops.placed([*pieces, (left, last.on(rows, left))], rows.num_rows, arrow_type(last.type))

        columns = frozenset[str]().union(*(part.columns for part in (*whens, *values, last)))
        return Evaluable(last.type, columns, run, self.text)

    def coalesce(self, parts: list[Evaluable]) -> Evaluable:
        values = self.together(parts)

        def run(rows: pa.RecordBatch) -> pa.Array:
            left, pieces = np.arange(rows.num_rows), []
            for value in values:
                got = value.on(rows, left)
                there = np.asarray(got.is_valid())
                pieces.append((left[there], got.filter(pa.array(there))))
                left = left[~there]
            return ops.placed(pieces, rows.num_rows, arrow_type(values[0].type))

        return Evaluable(values[0].type, frozenset[str]().union(*(v.columns for v in values)), run, self.text)

    def joined(self, parts: list[Evaluable]) -> Evaluable:
        texts = [self.converted(part, STRING) for part in parts]
        return self.derived(STRING, texts, lambda *x: pc.binary_join_element_wise(*x, ""))

    def function(self, node: exp.Expr, type_: DataType, compute: Callable[[pa.Array], pa.Array]) -> Evaluable:
        inner = self.made(node.this)
        if inner.type != STRING:
            raise self.refusal(node)
        return self.derived(type_, [inner], compute)

    def cast(self, node: exp.Cast) -> Evaluable:
        inner, type_ = self.made(node.this), self.cast_type(node)
        if inner.type == STRING and inner.literal is not None and type_ in (DATE, INSTANT, LOCAL_TIME):
            return self.moment(str(inner.literal.value), type_)
        return self.converted(inner, type_)

    def cast_type(self, node: exp.Cast) -> DataType:
        params = [str(p.this.this) for p in node.to.expressions]
        if node.to.this is exp.DataType.Type.DECIMAL and all(re.fullmatch("[0-9]{1,2}", p) for p in params):
            precision, scale = (*map(int, params), *(10, 0)[len(params) :])
            if scale <= precision <= LARGEST_PRECISION:
                return Decimal(precision, scale)
        type_ = _CASTS.get(node.to.this)
        if type_ is None or params:
            raise self.refusal(node)
        return type_


def _refusal(text: str) -> Unsupported:
    return Unsupported(f"only Spark can evaluate `{text}`: use a Spark session, or write it otherwise")
