"""Parses types in SQL syntax: `bigint`, `decimal(10,2)`, `array<struct<a: int not null, b: string>>`.

1. Accepts what Spark accepts, for every type that a table can have, and nothing else.
2. Keywords are case-insensitive; names keep their case, and any name may be in backticks.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from holdfast.errors import Invalid
from holdfast.schema.casts import LARGEST_PRECISION
from holdfast.schema.types import Array, DataType, Decimal, Field, Map, Primitive, Struct

_NAMES = {
    "boolean": "boolean",
    "tinyint": "byte",
    "byte": "byte",
    "smallint": "short",
    "short": "short",
    "int": "integer",
    "integer": "integer",
    "bigint": "long",
    "long": "long",
    "float": "float",
    "real": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "string": "string",
    "binary": "binary",
    "void": "void",
    "variant": "variant",
}
_DECIMALS = frozenset(("decimal", "dec", "numeric"))
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([A-Za-z0-9_]+)|(\S))", re.DOTALL)
_DEEPEST = 100
_SOME = "long, int, double, decimal(10,2), boolean, string, binary, date, timestamp, array<…>, map<…>, struct<…>"


def parse_type(text: str) -> DataType:
    """The type of a text."""
    reader = _DdlReader(text, _tokens(text))
    type_ = reader.type(0)
    reader.end()
    return type_


def _tokens(text: str) -> list[str]:
    return [match.group(0).strip() for match in _TOKEN.finditer(text)]


@dataclass(slots=True)
class _DdlReader:
    text: str
    tokens: list[str]
    at: int = 0

    def type(self, depth: int) -> DataType:
        if depth > _DEEPEST:
            raise self.wrong("it is nested too deeply")
        word = self.take().lower()
        if word in _NAMES:
            return Primitive(_NAMES[word])
        if word in _DECIMALS:
            return self.decimal()
        match word:
            case "array":
                self.expect("<")
                element = self.type(depth + 1)
                self.expect(">")
                return Array(element)
            case "map":
                self.expect("<")
                key = self.type(depth + 1)
                self.expect(",")
                value = self.type(depth + 1)
                self.expect(">")
                return Map(key, value)
            case "struct":
                return self.struct(depth + 1)
            case _:
                similar = difflib.get_close_matches(word, [*_NAMES, *_DECIMALS, "array", "map", "struct"], n=1)
                raise self.wrong(
                    f"did you mean {similar[0]}?" if similar else f"there is no type {word!r}, but {_SOME}"
                )

    def decimal(self) -> Decimal:
        if self.peek() != "(":
            return Decimal(10, 0)
        self.expect("(")
        precision, scale = self.number(), 0
        if self.peek() == ",":
            self.expect(",")
            scale = self.number()
        self.expect(")")
        if not 1 <= precision <= LARGEST_PRECISION or scale > precision:
            raise self.wrong(f"a decimal has 1 to {LARGEST_PRECISION} digits, and no more of them after the point")
        return Decimal(precision, scale)

    def struct(self, depth: int) -> Struct:
        self.expect("<")
        fields: list[Field] = []
        while self.peek() != ">":
            if fields:
                self.expect(",")
            fields.append(self.field(depth))
        self.expect(">")
        return Struct(tuple(fields))

    def field(self, depth: int) -> Field:
        name = _name(self.take())
        if self.peek() == ":":
            self.expect(":")
        type_ = self.type(depth)
        nullable, metadata = True, {}
        if self.peek().lower() == "not":
            self.expect("not")
            self.expect("null")
            nullable = False
        if self.peek().lower() == "comment":
            self.expect("comment")
            metadata = {"comment": _quoted(self.take())}
        return Field(name, type_, nullable, metadata)

    def number(self) -> int:
        token = self.take()
        if not re.fullmatch(r"[0-9]{1,3}", token):
            raise self.wrong(f"{token!r} is no number")
        return int(token)

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        if not token:
            raise self.wrong("it ends too early")
        self.at += 1
        return token

    def expect(self, expected: str) -> None:
        if (token := self.take()).lower() != expected:
            raise self.wrong(f"{expected!r} is expected where {token!r} is")

    def end(self) -> None:
        if rest := self.peek():
            raise self.wrong(f"nothing is expected after it, but {rest!r} is there")

    def wrong(self, reason: str) -> Invalid:
        return Invalid(f"{self.text!r} is no type: {reason}")


def _name(token: str) -> str:
    return token[1:-1].replace("``", "`") if token.startswith("`") else token


def _quoted(token: str) -> str:
    return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
