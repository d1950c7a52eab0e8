"""Parses the SQL expressions in a table's metadata, and writes them anew for engines to evaluate.

Generated columns, defaults, CHECK constraints and invariants are SQL that the table's author chose, and that runs in
the session of anybody who writes to the table. An engine only sees text that this module wrote from what it parsed.

1. An expression has only columns of the table, variables of its own lambdas, literals, operators, CASE, CAST and
   functions of `schema.functions`; anything else is refused by its name, before anything runs.
2. Every name is quoted and every column spelled as in the schema, so that no word can mean anything else.
3. Characters that no rule accepts (comments, hints, parameters, other spaces) are refused, and so is `${`, which Spark
   would replace by a setting or an environment variable.
4. Work is bounded by the length of a text, and its length and depth are bounded too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.errors import Unsupported
from holdfast.schema.functions import DETERMINISTIC, FOR_DEFAULTS, NEEDS_ARGUMENTS, SYNTAX, WITHOUT_PARENTHESES
from holdfast.schema.tokens import END, RefusedExpression, Token, quoted, tokens_of, unquoted
from holdfast.schema.types import Struct

_DEEPEST = 60
_MOST_CHAINED = 300  # operators beyond the first of their chain; each adds a level to an engine's tree

_OPERATORS = "+ - * / % || & | ^ << >> >>> = == <=> <> != < <= > >="
_BINARY = frozenset(_OPERATORS.split())
_TYPED = frozenset(("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIME", "X"))
_SPANS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_UNITS = frozenset(("DAYOFYEAR", "NANOSECOND", "NANOSECONDS", *_SPANS, *(f"{span}S" for span in _SPANS)))
_SHORT_FIELDS = "YEAROFWEEK QTR MON MONS W D DOW DAYOFWEEK DOW_ISO DAYOFWEEK_ISO DOY H HR HRS M MIN MINS S SEC SECS"
_FIELDS = _UNITS | frozenset(_SHORT_FIELDS.split())
_UNIT_FIRST = frozenset(("timestampadd", "dateadd", "date_add", "timestampdiff", "datediff", "date_diff"))
_SEPARATORS = {"substring": ("FROM", "FOR"), "substr": ("FROM", "FOR"), "overlay": ("PLACING", "FROM", "FOR")}
_TYPES = """
    boolean tinyint byte smallint short int integer bigint long float real double date timestamp timestamp_ltz
    timestamp_ntz string binary decimal dec numeric char character varchar variant void time
"""
_SIMPLE_TYPES = frozenset(_TYPES.split())
_ROWS = frozenset(("SELECT", "FROM", "TABLE", "VALUES", "WITH", "USING"))


@dataclass(frozen=True, slots=True)
class StoredExpression:
    """An expression of a table's metadata that engines may evaluate."""

    text: str  # as the metadata has it, for messages
    sql: str  # as it is evaluated
    columns: tuple[str, ...]  # top-level columns it names
    functions: frozenset[str]  # that an engine resolves by name


def stored(text: str, schema: Struct, what: str, *, default: bool = False) -> StoredExpression:
    """Parse an expression; `what` is its name in errors. A default may call more functions, and names no column."""
    try:
        reader = _ExpressionReader(
            tokens_of(text), Struct(()) if default else schema, FOR_DEFAULTS if default else frozenset()
        )
        reader.expression()
        if reader.at < len(reader.tokens):
            raise RefusedExpression(f"has {reader.tokens[reader.at].text[:40]!r} where nothing is expected")
    except RefusedExpression as refused:
        shown = text if len(text) <= 200 else f"{text[:200]}…"
        raise Unsupported(
            f"the {what} ({shown}) {refused}. It comes with the table and is not evaluated: only columns, literals, "
            "operators and Spark's deterministic built-in functions are. Drop it, or write with the table's engine"
        ) from None
    return StoredExpression(text, " ".join(reader.out), tuple(reader.columns), frozenset(reader.functions))


@dataclass(slots=True)
class _ExpressionReader:
    """A recursive-descent parser that appends the new text to `out` as it takes tokens."""

    tokens: list[Token]
    schema: Struct
    also: frozenset[str]
    at: int = 0
    depth: int = 0
    out: list[str] = field(default_factory=list)
    columns: dict[str, None] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    variables: list[str] = field(default_factory=list)
    chained: int = 0

    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else END

    def sees(self, *words: str, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        return (token.upper or (token.text if token.kind == "symbol" else "")) in words

    def take(self, *words: str) -> bool:
        """Take the next token, unchanged, if it is one of these."""
        if not self.sees(*words):
            return False
        self.out.append(self.peek().upper or self.peek().text)
        self.at += 1
        return True

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise RefusedExpression(f"cannot be read at {self.peek().text[:40]!r}, where {words[0]} is expected")

    def expression(self) -> None:
        self.depth += 1
        self.refuse_deep()
        self.condition()
        while self.take("AND", "OR"):
            self.condition()
        self.depth -= 1

    def refuse_deep(self) -> None:
        if self.depth > _DEEPEST:
            raise RefusedExpression(f"is nested more than {_DEEPEST} deep")

    def chain(self, take: Callable[[], bool]) -> None:
        """Call `take` until it returns False; a long chain is refused, because it is a deep tree."""
        if not take():
            return
        while take():
            self.chained += 1
            if self.chained > _MOST_CHAINED:
                raise RefusedExpression(f"has chains of more than {_MOST_CHAINED} operators")

    def condition(self) -> None:
        self.chain(lambda: self.take("NOT", "!"))
        self.value()
        while self.predicate():
            pass

    def predicate(self) -> bool:
        if self.take("IS"):
            self.take("NOT")
            if self.take("DISTINCT"):
                self.need("FROM")
                self.value()
            else:
                self.need("NULL", "TRUE", "FALSE", "UNKNOWN")
            return True
        if self.sees("NOT") and not self.sees("BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", ahead=1):
            return False
        self.take("NOT")
        if self.take("BETWEEN"):
            self.value()
            self.need("AND")
            self.value()
        elif self.take("IN"):
            self.listed(self.expression)
        elif self.take("LIKE", "ILIKE", "RLIKE", "REGEXP"):
            if self.take("ANY", "SOME", "ALL"):
                self.listed(self.expression)
            else:
                self.value()
                if self.take("ESCAPE"):
                    self.text()
        else:
            return False
        return True

    def value(self) -> None:
        self.operand()
        self.chain(self.another)

    def another(self) -> bool:
        if not self.take(*_BINARY, "DIV"):
            return False
        self.operand()
        return True

    def operand(self) -> None:
        self.chain(lambda: self.take("-", "+", "~"))
        self.primary()
        self.chain(self.postfix)

    def postfix(self) -> bool:
        if self.take("["):
            self.expression()
            self.need("]")
        elif self.take("."):
            self.name()
        elif self.take("::"):
            self.type()
        elif self.take("COLLATE"):
            self.name()
        else:
            return False
        return True

    def primary(self) -> None:
        token, following = self.peek(), self.peek(1)
        match token.kind:
            case "number":
                self.put(token.text)
            case "string" | "raw" | "double":
                self.text()
            case "quoted" if self.sees("(", ahead=1):
                raise RefusedExpression(f"calls {token.text}")
            case "quoted":
                self.column()
            case "symbol" if token.text == "(":
                self.listed(self.expression)
            case "word" if token.upper in ("TRUE", "FALSE", "NULL"):
                self.put(token.upper)
            case "word" if token.upper == "CASE":
                self.case()
            case "word" if token.upper in _TYPED and following.kind == "string":
                self.put(token.upper)
                self.text()
            case "word" if token.upper == "INTERVAL" and self.is_interval():
                self.interval()
            case "word" if self.sees("(", ahead=1):
                self.call(token.text.lower())
            case "word":
                self.column()
            case _:
                raise RefusedExpression(
                    f"cannot be read at {token.text[:40]!r}" if token is not END else "ends too early"
                )

    def put(self, text: str) -> None:
        self.out.append(text)
        self.at += 1

    def text(self) -> None:
        token = self.peek()
        if token.kind not in ("string", "raw", "double"):
            raise RefusedExpression(f"cannot be read at {token.text[:40]!r}, where a text is expected")
        # In double quotes, a session setting decides between text and name; in single quotes it is always a text.
        self.put(f"'{token.text[1:-1]}'" if token.kind == "double" else token.text)

    def name(self) -> None:
        token = self.peek()
        if token.kind not in ("word", "quoted"):
            raise RefusedExpression(f"cannot be read at {token.text[:40]!r}, where a name is expected")
        if self.sees("(", ahead=1):
            raise RefusedExpression(f"calls {self.dotted()}")
        self.put(quoted(unquoted(token)))

    def column(self) -> None:
        token = self.peek()
        name = unquoted(token)
        if name.lower() in self.variables:
            self.put(quoted(name))
            return
        column = self.schema.find(name)
        if column is None and token.kind == "word":
            if token.upper in _ROWS:
                raise RefusedExpression(f"asks for rows ({token.text})")
            if name.lower() in self.also & WITHOUT_PARENTHESES:
                self.functions.add(name.lower())
                self.put(f"{name.lower()} ( )")
                return
            if name.lower() in WITHOUT_PARENTHESES:
                raise RefusedExpression(f"calls {name}")
        if column is None:
            raise RefusedExpression(f"names {name}, which is no column it may use")
        self.columns[column.name] = None
        self.put(quoted(column.name))

    def dotted(self) -> str:
        """The name before the next bracket, with its qualifiers."""
        first = self.at
        while first >= 2 and self.tokens[first - 1].text == ".":
            first -= 2
        return "".join(token.text for token in self.tokens[first : self.at + 1])

    def listed(self, item: Callable[[], None]) -> None:
        """A list in brackets, separated by commas."""
        self.need("(")
        item()
        while self.take(","):
            item()
        self.need(")")

    def case(self) -> None:
        self.need("CASE")
        if not self.sees("WHEN"):
            self.expression()
        self.need("WHEN")
        self.branch()
        while self.take("WHEN"):
            self.branch()
        if self.take("ELSE"):
            self.expression()
        self.need("END")

    def branch(self) -> None:
        self.expression()
        self.need("THEN")
        self.expression()

    def is_interval(self) -> bool:
        signed = 1 if self.sees("-", "+", ahead=1) else 0
        number = self.peek(1 + signed)
        return number.kind in ("number", "string") and (
            number.kind == "string" or self.peek(2 + signed).upper in _UNITS
        )

    def interval(self) -> None:
        self.need("INTERVAL")
        while self.sees("-", "+") or self.peek().kind in ("number", "string"):
            self.take("-", "+")
            if self.peek().kind == "string":
                self.text()
            else:
                self.put(self.peek().text)
            if self.take(*_UNITS) and self.take("TO"):
                self.need(*_UNITS)
            if not (self.peek().kind in ("number", "string") and self.peek(1).upper in _UNITS):
                return

    def call(self, name: str) -> None:
        if name in ("cast", "try_cast"):
            self.put(name)
            self.need("(")
            self.expression()
            self.need("AS")
            self.type()
            self.need(")")
            return
        if name not in DETERMINISTIC | SYNTAX | self.also:
            raise RefusedExpression(f"calls {name}")
        if name not in SYNTAX:
            self.functions.add(name)
        self.put(name)
        self.need("(")
        if self.take(")"):
            if name in NEEDS_ARGUMENTS:
                raise RefusedExpression(f"calls {name} without arguments, which is the time of day")
            return
        match name:
            case "extract":
                self.need(*_FIELDS)
                self.need("FROM")
                self.expression()
            case "trim" if self.take("BOTH", "LEADING", "TRAILING"):
                if not self.sees("FROM"):
                    self.expression()
                self.need("FROM")
                self.expression()
            case "position":
                self.value()
                if self.take("IN"):
                    self.value()
                else:
                    self.rest(name)
            case _:
                if name in _UNIT_FIRST and self.sees(",", ahead=1) and self.peek().upper in _UNITS:
                    self.take(*_UNITS)
                else:
                    self.argument(name)
                self.rest(name)
        self.need(")")

    def rest(self, name: str) -> None:
        while self.take(",", *_SEPARATORS.get(name, ())):
            self.argument(name)
        if name == "trim" and self.take("FROM"):
            self.expression()

    def argument(self, function: str) -> None:
        names = self.lambda_names()
        if not names:
            self.expression()
            if function == "struct" and self.take("AS"):
                self.name()
            return
        self.out.append("( " + " , ".join(map(quoted, names)) + " )" if len(names) > 1 else quoted(names[0]))
        self.need("->")
        self.variables.extend(name.lower() for name in names)
        self.expression()
        del self.variables[-len(names) :]

    def lambda_names(self) -> list[str]:
        """Takes the variables of a lambda that begins here; returns none where none does."""
        named = ("word", "quoted")
        if self.peek().kind in named and self.sees("->", ahead=1):
            self.at += 1
            return [unquoted(self.peek(-1))]
        names: list[str] = []
        ahead = 1
        if not self.sees("("):
            return names
        while self.peek(ahead).kind in named and self.sees(",", ")", ahead=ahead + 1):
            names.append(unquoted(self.peek(ahead)))
            ahead += 2
            if self.sees(")", ahead=ahead - 1):
                break
        if not names or not self.sees("->", ahead=ahead):
            return []
        self.at += ahead
        return names

    def type(self) -> None:
        self.depth += 1
        self.refuse_deep()
        name = self.peek().text.lower()
        if self.take("INTERVAL"):
            self.need(*_SPANS)
            if self.take("TO"):
                self.need(*_SPANS)
            self.depth -= 1
            return
        if self.peek().kind != "word" or name not in _SIMPLE_TYPES | {"array", "map", "struct"}:
            raise RefusedExpression(f"casts to {self.peek().text[:40]}, which is no type it may use")
        self.put(name)
        if name in _SIMPLE_TYPES:
            if self.sees("(") and self.peek(1).kind == "number":
                self.listed(lambda: self.put(self.number()))
        else:
            self.need("<")
            self.inner(named=name == "struct")
            while self.take(","):
                self.inner(named=name == "struct")
            self.closed()
        self.depth -= 1

    def inner(self, *, named: bool) -> None:
        if named:
            self.name()
            self.take(":")
        self.type()

    def closed(self) -> None:
        """Takes one `>`, which may be part of a token for a shift."""
        token = self.peek()
        if token.kind != "symbol" or set(token.text) != {">"}:
            raise RefusedExpression(f"cannot be read at {token.text[:40]!r}, where > is expected")
        self.out.append(">")
        if len(token.text) == 1:
            self.at += 1
        else:
            self.tokens[self.at] = Token("symbol", token.text[1:])

    def number(self) -> str:
        if not self.peek().text.isdecimal():
            raise RefusedExpression(f"cannot be read at {self.peek().text[:40]!r}, where a number is expected")
        return self.peek().text
