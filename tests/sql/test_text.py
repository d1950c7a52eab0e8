"""Words of statements, and edits between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.sql.text import Edit, TokenKind, applied, statement_of
from tests.support.depth import examples

PIECES = (
    "select", "FROM", "`a``b`", "t", "1.5e3", "10L", "'it''s'", "'a\\'b'", '"q"', "r'\\'", "x.y", "<=", "->", "::",
    "|>", "(", ")", "[", "]", ",", ":p", "?", "/* c */", "/* a /* b */ c */", "-- line\n", "/*+ HINT(t) */", "\n",
    "\t", "é",
)  # fmt: skip


def test_words_are_cut_where_spark_cuts_them() -> None:
    statement = statement_of("select a.`b c`, 'it''s' -- and\n from /* not /* this */ */ delta.`/p` where x>=1.5e3;")
    assert statement is not None
    assert [w.text for w in statement.words] == [
        *("select", "a", ".", "`b c`", ",", "'it''s'", "from", "delta", ".", "`/p`", "where", "x", ">", "=", "1.5e3"),
    ]


@pytest.mark.parametrize("text", ["select 'open", "select (1", "select 1)", "select [1)", "select /* x", "select `a"])
def test_what_cannot_be_cut_is_left_to_spark(text: str) -> None:
    assert statement_of(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        (r"'a\nb'", "a\nb"),
        ('"a"', "a"),
        (r"r'a\n'", r"a\n"),
        (r"'\\'", "\\"),
    ],
)
def test_a_string_says_what_spark_reads(text: str, value: str) -> None:
    statement = statement_of(text)
    assert statement is not None
    assert statement.words[0].value == value


def test_places_for_formatting_are_words_only_where_asked_for() -> None:
    text = "select * from {df} where a = '{'"
    plain, formatted = statement_of(text), statement_of(text, fields=True)
    assert plain is not None
    assert formatted is not None
    assert TokenKind.FIELD not in [w.kind for w in plain.words]
    assert [w.text for w in formatted.words if w.kind is TokenKind.FIELD] == ["{df}"]


@examples(200)
@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_words_lie_in_the_text_in_order_and_leave_out_nothing_that_counts(pieces: list[str]) -> None:
    text = " ".join(pieces)
    statement = statement_of(text)
    if statement is None:
        assert any(piece in "()[]" for piece in pieces)
        return
    at = 0
    for word in statement.words:
        assert text[word.start : word.end] == word.text
        between = text[at : word.start]
        assert not between.strip() or between.strip().startswith(("/*", "--"))
        at = word.end


@examples(200)
@given(st.text(max_size=40), st.lists(st.integers(0, 40), max_size=6, unique=True), st.data())
def test_edits_leave_everything_else_as_it_was(text: str, cuts: list[int], data: st.DataObject) -> None:
    bounds = sorted(min(cut, len(text)) for cut in cuts)
    spans = list(zip(bounds[::2], bounds[1::2], strict=False))
    edits = [Edit(a, b, f"<{i}>") for i, (a, b) in enumerate(spans) if a < b]
    got = applied(text, data.draw(st.permutations(edits)))
    at = 0
    for edit in edits:
        untouched = text[at : edit.start]
        assert got.startswith(untouched + edit.text)
        got, at = got[len(untouched + edit.text) :], edit.end
    assert got == text[at:]
