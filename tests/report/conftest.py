"""What a small tour found, and its page."""

from __future__ import annotations

import pytest

from holdfast.report.facts import Facts
from holdfast.report.page import page
from tests.support.tour import toured


@pytest.fixture(scope="session")
def facts() -> Facts:
    return toured().facts


@pytest.fixture(scope="session")
def html(facts: Facts) -> str:
    return page(facts)
