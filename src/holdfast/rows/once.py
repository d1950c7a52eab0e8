"""A property that is computed at first use and cached.

The standard library's holds a lock (until Python 3.12), and what holds a lock does not travel to Spark's workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class once(Generic[Value]):
    """Turns a method without arguments into such a property; the object must have a `__dict__`."""

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make, self._name, self.__doc__ = make, make.__name__, make.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> once[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> once[Value] | Value:
        if instance is None:
            return self
        # Python asks here only as long as the object has nothing of its own under this name.
        value: Value = self._make(instance)
        instance.__dict__[self._name] = value
        return value
