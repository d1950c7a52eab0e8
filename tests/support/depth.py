"""How deep a property test goes: N examples in `make test`, a hundred times as many in `make soak`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

DEPTH = int(os.environ.get("HOLDFAST_DEPTH", "1"))


def examples(count: int) -> settings:
    """Settings for a property that needs `count` examples at ordinary depth."""
    return settings(
        max_examples=count * DEPTH,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
