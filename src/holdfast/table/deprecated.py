"""Accepts the earlier spelling of an argument for one release, with a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def renamed_arguments(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Accept each argument under its earlier name too: `renamed_arguments(earlier="now")`."""

    def decorated(verb: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(verb)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for earlier in [name for name in names if name in kwargs]:
                now = names[earlier]
                if now in kwargs:
                    raise TypeError(f"{verb.__name__}() got {earlier} and {now}, which are one argument")
                text = f"{verb.__name__}({earlier}=) is now {now}=; the next release does not accept {earlier}"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                kwargs[now] = kwargs.pop(earlier)
            return verb(*args, **kwargs)

        return call

    return decorated
