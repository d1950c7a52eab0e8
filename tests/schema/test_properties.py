"""Table properties: names, values, and what a misspelt one was meant to be."""

from __future__ import annotations

import pytest

from holdfast.errors import Invalid
from holdfast.schema.properties import PROPERTIES, check, is_known, nearest, number, span_ms, truth

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("interval 7 days", 168 * HOUR),
        ("INTERVAL 1 WEEK", 168 * HOUR),
        ("2 days", 48 * HOUR),
        ("interval 1 day 12 hours", 36 * HOUR),
        ("interval 30 minutes", HOUR // 2),
        ("interval 0 seconds", 0),
        ("  interval   5  milliseconds ", 5),
    ],
)
def test_spans_of_time(text: str, wanted: int) -> None:
    assert span_ms("delta.logRetentionDuration", text) == wanted


@pytest.mark.parametrize("text", ["", "interval", "7", "interval 2 months", "1 year", "soon", "7 days or so", "days 7"])
def test_what_is_no_span_of_fixed_length_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"delta\.logRetentionDuration.*interval 7 days"):
        span_ms("delta.logRetentionDuration", text)


def test_truths_and_numbers() -> None:
    assert truth("TRUE")
    assert not truth("yes")
    assert not truth(None)
    assert truth(None, default=True)
    assert number("delta.checkpointInterval", " 10 ") == 10
    with pytest.raises(Invalid, match=r"delta\.checkpointInterval"):
        number("delta.checkpointInterval", "ten")


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("delta.enableRowTraking", "delta.enableRowTracking"),
        ("delta.enablerowtracking", "delta.enableRowTracking"),
        ("delta.enableDeletionVector", "delta.enableDeletionVectors"),
        ("delta.zzz", None),
    ],
)
def test_a_misspelt_name_suggests_the_nearest(misspelt: str, meant: str | None) -> None:
    assert not is_known(misspelt)
    assert nearest(misspelt) == meant


def test_every_known_name_is_known_and_nearest_to_itself() -> None:
    for name in PROPERTIES:
        assert is_known(name)
        assert nearest(name) == name
    assert is_known("delta.constraints.positive")
    assert is_known("delta.feature.rowTracking")
    assert is_known("owner")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta.appendOnly", "maybe"),
        ("delta.checkpointInterval", "1.5"),
        ("delta.deletedFileRetentionDuration", "a week"),
    ],
)
def test_values_that_cannot_be_are_refused(name: str, value: str) -> None:
    with pytest.raises(Invalid, match=name.replace(".", r"\.")):
        check(name, value)


def test_values_that_can_be_pass() -> None:
    check("delta.appendOnly", "True")
    check("delta.checkpointInterval", "10")
    check("delta.deletedFileRetentionDuration", "interval 1 week")
    check("delta.columnMapping.mode", "anything is text")
    check("owner", "ada")
