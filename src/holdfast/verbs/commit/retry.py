"""Runs an operation again on the newest version when another writer committed first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from holdfast.env import Env
from holdfast.errors import ConcurrentWrite, Invalid

T = TypeVar("T")
_REPEATS = 10  # of an operation that no conflict stands in the way of, only its own bytes
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Retry:
    """How often to run an operation in all, and how long to begin a run."""

    attempts: int = 5
    seconds: float = 60.0


def retry_of(limit: int | Retry | None) -> Retry:
    """What a user asks for: a number of attempts, a budget, or one attempt only."""
    retry = limit if isinstance(limit, Retry) else Retry(1 if limit is None else limit)
    if retry.attempts < 1 or retry.seconds < 0:
        raise Invalid("retry= is how often to try in all, at least once, or a Retry with attempts and seconds")
    return retry


def retried(run: Callable[[], T], retry: Retry, env: Env, *, anew: Callable[[], None] = lambda: None) -> T:
    """Run; and again, as long as others come first and it can succeed and the budget lasts, each time after `anew`."""
    begun = env.now_ms()
    for attempt in range(1, max(retry.attempts, _REPEATS) + 1):
        try:
            return run()
        except ConcurrentWrite as conflict:
            over = attempt >= retry.attempts or env.now_ms() - begun >= 1000 * retry.seconds
            if not conflict.repeats and (over or not conflict.can_retry):
                raise
            if conflict.repeats and attempt == max(retry.attempts, _REPEATS):
                raise
        anew()
        env.pause(env.rng.uniform(0, min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S)))
    raise AssertionError("the last attempt returns or raises")
