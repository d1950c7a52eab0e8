"""What a call costs, in a unit that a slow or busy machine stretches as much as the call.

The unit is the processor time that numpy takes to order a million numbers by merging, measured beside the call.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

_ROUNDS = 3


def effort(call: Callable[[], object]) -> float:
    """The least processor time of a few calls, as a multiple of the least that the ordering took."""
    numbers = np.random.default_rng(0).permutation(1_000_000)
    rounds = [(_seconds(call), _seconds(lambda: np.argsort(numbers, kind="stable"))) for _ in range(_ROUNDS)]
    return min(of_call for of_call, _ in rounds) / min(of_unit for _, of_unit in rounds)


def _seconds(call: Callable[[], object]) -> float:
    began = time.thread_time()
    call()
    return time.thread_time() - began
