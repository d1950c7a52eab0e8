"""Checks the table properties that a user sets: their names and their values.

A table that is read may have any property, but setting a misspelt one would have no effect, so it is refused.

1. A known name in another case becomes the known one; any other name under `delta.` is refused, with the most similar
   known name.
2. A known name without its `delta.` is refused too: the table would keep it, without an effect.
3. Properties that the table itself writes (physical names, high-water marks) cannot be set.
4. `delta.feature.<name>` enables a feature and is no property.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.errors import Invalid
from holdfast.schema.properties import (
    COLUMN_MAPPING_MAX_ID,
    COLUMN_MAPPING_MODE,
    CONSTRAINT,
    FEATURE,
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    ISOLATION_LEVEL,
    LAYOUT,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    PREFIX,
    PROPERTIES,
    DataLayout,
    Isolation,
    check,
    nearest,
)

_CHOICES = {
    COLUMN_MAPPING_MODE: ("none", "name", "id"),
    "delta.checkpointPolicy": ("classic", "v2"),
    ISOLATION_LEVEL: tuple(level.value for level in Isolation),
    LAYOUT: tuple(layout.value for layout in DataLayout),
    "delta.parquet.compression.codec": ("uncompressed", "none", "snappy", "gzip", "zstd"),
}
_WRITTEN_BY_THE_TABLE = frozenset(
    (
        COLUMN_MAPPING_MAX_ID,
        MATERIALIZED_ROW_ID,
        MATERIALIZED_ROW_COMMIT_VERSION,
        IN_COMMIT_TIMESTAMP_VERSION,
        IN_COMMIT_TIMESTAMP_TIME,
    )
)
_VERSIONS = ("delta.minReaderVersion", "delta.minWriterVersion")
_FOLDED = {name.lower(): name for name in PROPERTIES}


@dataclass(frozen=True, slots=True)
class Requested:
    """Properties to set and features to have."""

    properties: Mapping[str, str]
    features: frozenset[str]


def requested(user_properties: Mapping[str, str]) -> Requested:
    """The properties and features that a user's properties request."""
    properties: dict[str, str] = {}
    features: set[str] = set()
    for spelling, value in user_properties.items():
        if not isinstance(value, str):
            raise Invalid(f"the property {spelling} is {value!r}: give it as text, {str(value).lower()!r}")
        name = spelled(spelling)
        if name.startswith(FEATURE):
            features.add(_feature(name, value))
        elif properties.setdefault(name, value) != value:
            raise Invalid(f"the property {name} is asked for twice, as {properties[name]!r} and as {value!r}")
        else:
            _check(name, value)
    return Requested(properties, frozenset(features))


def least_versions(user_properties: Mapping[str, str]) -> tuple[dict[str, str], tuple[int, int]]:
    """The properties without those for the protocol's versions, and the reader and writer version; 0: not requested."""
    versions = dict.fromkeys(_VERSIONS, 0)
    rest: dict[str, str] = {}
    for spelling, value in user_properties.items():
        name = _FOLDED.get(spelling.lower(), spelling)
        if name not in versions:
            rest[spelling] = value
        elif str(value).strip().isdigit():
            versions[name] = int(value)
        else:
            raise Invalid(f"the property {name} is {value!r}: give it as a whole number in text, such as '2'")
    reader, writer = versions.values()
    return rest, (reader, writer)


def spelled(name: str) -> str:
    """The name of a property as the table stores it."""
    folded = name.lower()
    for prefix in (CONSTRAINT, FEATURE):
        if folded.startswith(prefix):
            if not name[len(prefix) :].strip():
                raise Invalid(f"the property {name} names nothing: write {prefix}<name>")
            return prefix + (folded if prefix == CONSTRAINT else name)[len(prefix) :]
    if folded in _FOLDED:
        return _FOLDED[folded]
    if folded.startswith(PREFIX):
        close = nearest(name)
        hint = f": did you mean {close}?" if close else "; names outside of delta. are yours to choose"
        raise Invalid(f"there is no property {name}{hint}").named("DELTA_UNKNOWN_CONFIGURATION")
    if PREFIX + folded in _FOLDED:
        raise Invalid(f"the property {name} means nothing without its prefix: did you mean {_FOLDED[PREFIX + folded]}?")
    return name


def _feature(name: str, value: str) -> str:
    if value.strip().lower() not in ("supported", "enabled"):
        raise Invalid(f"the property {name} is {value!r}; a feature can only be 'supported'")
    return name.removeprefix(FEATURE)


def _check(name: str, value: str) -> None:
    if name in _WRITTEN_BY_THE_TABLE:
        raise Invalid(f"the property {name} is kept by the table itself: leave it out")
    if name in _VERSIONS:
        raise Invalid(
            f"{name} cannot be asked for here: the table gets the least versions its features need; "
            "ask for a feature with delta.feature.<name> = 'supported'"
        )
    choices = _CHOICES.get(name)
    if choices is not None and value not in choices:
        raise Invalid(f"the property {name} is {value!r}; it must be one of {', '.join(choices)}")
    if name.startswith(CONSTRAINT) and not value.strip():
        raise Invalid(f"the property {name} is empty: give it a condition")
    check(name, value)
