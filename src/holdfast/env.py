"""The clock, the uuids and the random numbers that code takes as an argument, so that tests can fix them."""

from __future__ import annotations

import random
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Env:
    """Time in milliseconds, uuids, random numbers, and a sleep in seconds."""

    now_ms: Callable[[], int]
    new_uuid: Callable[[], uuid.UUID]
    rng: random.Random = field(default_factory=lambda: random.Random(_fresh_seed()))
    pause: Callable[[float], None] = time.sleep


def _fresh_seed() -> int:
    return secrets.randbits(128)


def system() -> Env:
    """The machine's own clock and randomness."""
    return Env(now_ms=lambda: time.time_ns() // 1_000_000, new_uuid=uuid.uuid4)


def fixed(*, start_ms: int = 1_700_000_000_000, step_ms: int = 1, seed: int = 0) -> Env:
    """A clock that advances by `step_ms` each time it is read, seeded randomness, and pauses that take no time."""
    rng = random.Random(seed)
    now = start_ms

    def tick() -> int:
        nonlocal now
        now += step_ms
        return now

    return Env(
        now_ms=tick,
        new_uuid=lambda: uuid.UUID(int=rng.getrandbits(128), version=4),
        rng=rng,
        pause=lambda _: None,
    )
