"""How deep a property test goes, and what its draws begin with.

A property runs N examples in `make test`, a hundred times as many in `make soak` and a fifth in `make quick`; whatever
else is as deep as DEPTH is never shallower than in `make test`. Draws of `make test` are the same
in every run, whatever ran before; HOLDFAST_SEED gives others, and a deep run takes fresh ones unless it is given.
"""

from __future__ import annotations

import os
import secrets

from hypothesis import HealthCheck, settings

_ASKED = float(os.environ.get("HOLDFAST_DEPTH", "1"))
DEPTH = max(1, int(_ASKED))
_GIVEN = os.environ.get("HOLDFAST_SEED")
REPEATS = _GIVEN is None and DEPTH == 1
SEED = int(_GIVEN) if _GIVEN is not None else 0 if REPEATS else secrets.randbits(32)

settings.register_profile("holdfast", derandomize=REPEATS, print_blob=True, deadline=None)
settings.load_profile("holdfast")


def examples(count: int) -> settings:
    """Settings for a property that needs `count` examples at ordinary depth."""
    return settings(
        max_examples=max(1, round(count * _ASKED)),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
