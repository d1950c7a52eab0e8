"""Other writers, at the worst moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.verbs.open import open_table


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Arrange that others commit after the next transaction has read the table and written its rows."""

    def arrange(others: Callable[[], Any]) -> None:
        commit = open_table.commit
        waiting = [others]

        def late(*given: Any, **named: Any) -> Any:
            if waiting:
                waiting.pop()()
            return commit(*given, **named)

        monkeypatch.setattr(open_table, "commit", late)

    return arrange
