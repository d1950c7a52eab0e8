"""Options as delta-spark takes them: whatever their case, and those it does not know passed over.

1. A name counts whatever its case; of two spellings of one name the later counts.
2. A name that is nearly one of Delta's is refused, because who wrote it meant that one; any other is Spark's business.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.errors import Invalid
from holdfast.verbs.open.spark_values import stated_in_text

_NEAR = 0.88
_CONDITIONS = ("replacewhere", "replaceon")  # whose values are no other text than what a user writes


class SourceOptions:
    """What a reader or writer was told."""

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self._given: dict[str, tuple[str, str]] = {}  # by lower case: as it was spelled, and its value
        for name, value in (given or {}).items():
            self.set(name, value)

    def set(self, name: str, value: Any) -> None:
        """Note an option; None takes it back."""
        if value is None:
            self._given.pop(name.lower(), None)
        elif name.lower() in _CONDITIONS:
            self._given[name.lower()] = (name, stated_in_text(value, f"the option {name}"))
        else:
            self._given[name.lower()] = (name, _spelled(value))

    def get(self, name: str) -> str | None:
        """The value of an option."""
        found = self._given.get(name.lower())
        return None if found is None else found[1]

    def flag(self, name: str, default: bool = False) -> bool:
        """The value of an option that is true or false."""
        value = self.get(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise Invalid(f"{name} is true or false, not {value!r}")
        return value.lower() == "true"

    def number(self, name: str) -> int | None:
        """The value of an option that is a whole number."""
        value = self.get(name)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            raise Invalid(f"{name} is a whole number, not {value!r}") from None

    def items(self) -> Iterator[tuple[str, str]]:
        """Names as they were spelled, and values."""
        return iter(self._given.values())

    def storage(self) -> dict[str, str] | None:
        """Those that say how to reach the storage: Hadoop's, and Holdfast's own `storage.*`."""
        found = {name: value for name, value in self.items() if name.startswith("fs.")}
        found |= {name[len("storage.") :]: value for name, value in self.items() if name.startswith("storage.")}
        return found or None

    def refuse_misspelt(self, known: Sequence[str], what: str) -> None:
        """Refuse what is nearly a name of Delta's."""
        spelled = {name.lower(): name for name in known}
        for key, (name, _) in self._given.items():
            near = [] if key in spelled else difflib.get_close_matches(key, spelled, n=1, cutoff=_NEAR)
            if near:
                raise Invalid(f"{what} has no option {name!r}: did you mean {spelled[near[0]]}?")


def is_delta(source: str | None) -> bool:
    """Whether a format is Delta's."""
    return source is not None and source.lower() in ("delta", "org.apache.spark.sql.delta.sources.deltadatasource")


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
