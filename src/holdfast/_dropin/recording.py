"""Readers and writers that note what they are told.

PySpark's classic readers and writers keep what they are told in the JVM. A part put before their class notes it here as
well and hands it on, so that whatever is none of ours goes on as without the drop-in.

1. A reader or writer stays the object that PySpark made, of a subclass of its class.
2. Parts stand before PySpark's class, so what follows the last of them is that class.
"""

from __future__ import annotations

from typing import Any

from holdfast._dropin.options import SourceOptions

_classes: dict[tuple[type, type], type] = {}


class Noting:
    """The part that notes the options."""

    _holdfast_options: SourceOptions

    @property
    def _holdfast_plain(self) -> Any:
        """The same reader or writer, with PySpark's own methods."""
        return super()

    def option(self, key: str, value: Any) -> Any:
        self._holdfast_options.set(key, value)
        return self._holdfast_plain.option(key, value)

    def options(self, **options: Any) -> Any:
        self._holdfast_note(options)
        return self._holdfast_plain.options(**options)

    def _holdfast_note(self, options: dict[str, Any]) -> None:
        for name, value in options.items():
            self._holdfast_options.set(name, value)


class NotingFormat(Noting):
    """The part that notes the format, too."""

    _holdfast_format: str | None

    def format(self, source: str) -> Any:
        self._holdfast_format = source
        return self._holdfast_plain.format(source)


def noting(plain: Any, part: type[Noting], **noted: Any) -> Any:
    """A reader or writer of PySpark's with a part before it."""
    base = type(plain)
    if (part, base) not in _classes:
        _classes[part, base] = type(base.__name__, (part, base), {"__module__": base.__module__})
    plain.__class__ = _classes[part, base]
    vars(plain).update(_holdfast_options=SourceOptions(), _holdfast_format=None)
    vars(plain).update({f"_holdfast_{name}": value for name, value in noted.items()})
    return plain


def names(cols: Any) -> tuple[str, ...]:
    """Names that are given one by one, or in lists."""
    return tuple(name for col in cols for name in ([col] if isinstance(col, str) else col))
