"""The options of a reader or writer, as delta-spark takes them.

1. Names are case-insensitive; of two spellings of one name the later one is used.
2. A name that is nearly one of Delta's is refused as a misspelling; any other unknown name is left to Spark.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from holdfast.errors import Invalid
from holdfast.verbs.open.spark_values import stated_in_text

_NEAR = 0.88
_CONDITIONS = ("replacewhere", "replaceon")  # values that are conditions


class SourceOptions:
    """Options by name, whatever its case."""

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        self._options: dict[str, tuple[str, str]] = {}  # by lower case: the user's spelling, and the value
        for name, value in (options or {}).items():
            self.set(name, value)

    def set(self, name: str, value: object) -> None:
        """Set an option; None removes it."""
        if value is None:
            self._options.pop(name.lower(), None)
        elif name.lower() in _CONDITIONS:
            self._options[name.lower()] = (name, stated_in_text(value, f"the option {name}"))
        else:
            self._options[name.lower()] = (name, _text(value))

    def get(self, name: str) -> str | None:
        """The value of an option."""
        option = self._options.get(name.lower())
        return None if option is None else option[1]

    def flag(self, name: str, default: bool = False) -> bool:
        """The value of a boolean option."""
        value = self.get(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise Invalid(f"{name} is true or false, not {value!r}")
        return value.lower() == "true"

    def number(self, name: str) -> int | None:
        """The value of an integer option."""
        value = self.get(name)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            raise Invalid(f"{name} is a whole number, not {value!r}") from None

    def items(self) -> Iterator[tuple[str, str]]:
        """Names in the user's spelling, and values."""
        return iter(self._options.values())

    def storage(self) -> dict[str, str] | None:
        """The options of the storage: Hadoop's, and Holdfast's own `storage.*`."""
        storage = {name: value for name, value in self.items() if name.startswith("fs.")}
        storage |= {name[len("storage.") :]: value for name, value in self.items() if name.startswith("storage.")}
        return storage or None

    def refuse_misspelt(self, names: Sequence[str], what: str) -> None:
        """Refuse names that are nearly one of Delta's."""
        spelled = {name.lower(): name for name in names}
        for key, (name, _) in self._options.items():
            near = [] if key in spelled else difflib.get_close_matches(key, spelled, n=1, cutoff=_NEAR)
            if near:
                raise Invalid(f"{what} has no option {name!r}: did you mean {spelled[near[0]]}?")


def is_delta(source: str | None) -> bool:
    """Whether a format is Delta."""
    return source is not None and source.lower() in ("delta", "org.apache.spark.sql.delta.sources.deltadatasource")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
