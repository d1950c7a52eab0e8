"""Readers and writers that record their options.

PySpark's classic readers and writers keep their options in the JVM. A mixin before their class records the options here
too, and calls PySpark's method, so that other formats work as without the drop-in.

1. A reader or writer stays the object that PySpark created; its class becomes a subclass of its class.
2. Mixins come before PySpark's class, so `super()` of the last one is that class.
"""

from __future__ import annotations

from typing import Any

from holdfast._dropin.options import SourceOptions

_classes: dict[tuple[type, type], type] = {}


class RecordsOptions:
    """A mixin that records options."""

    _holdfast_options: SourceOptions

    @property
    def _holdfast_plain(self) -> Any:
        """The same reader or writer, with PySpark's own methods."""
        return super()

    def option(self, key: str, value: Any) -> Any:
        self._holdfast_options.set(key, value)
        return self._holdfast_plain.option(key, value)

    def options(self, **options: Any) -> Any:
        self._holdfast_record(options)
        return self._holdfast_plain.options(**options)

    def _holdfast_record(self, options: dict[str, Any]) -> None:
        for name, value in options.items():
            self._holdfast_options.set(name, value)


class RecordsFormat(RecordsOptions):
    """A mixin that records the format too."""

    _holdfast_format: str | None

    def format(self, source: str) -> Any:
        self._holdfast_format = source
        return self._holdfast_plain.format(source)


def recording(plain: Any, mixin: type[RecordsOptions], **fields: object) -> Any:
    """A reader or writer of PySpark with a mixin; `fields` are attributes of the mixin, without their prefix."""
    base = type(plain)
    if (mixin, base) not in _classes:
        _classes[mixin, base] = type(base.__name__, (mixin, base), {"__module__": base.__module__})
    plain.__class__ = _classes[mixin, base]
    vars(plain).update(_holdfast_options=SourceOptions(), _holdfast_format=None)
    vars(plain).update({f"_holdfast_{name}": value for name, value in fields.items()})
    return plain


def names(cols: Any) -> tuple[str, ...]:
    """Names from arguments that are names or lists of names."""
    return tuple(name for col in cols for name in ([col] if isinstance(col, str) else col))
