"""Pins: names for versions whose files and log Holdfast's vacuum and log cleanup keep.

They are domain metadata (`holdfast.pins`) of the table itself, so that they change atomically with a commit and every
writer that supports domain metadata keeps them. Other engines ignore them.

1. A name means one version; a version may have several names.
2. Without the feature `domainMetadata` a table cannot have pins.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.errors import Damaged, Invalid
from holdfast.formats.delta.protocol.features import writer_features
from holdfast.formats.delta.state import DeltaState
from holdfast.storage.error_mapping import MALFORMED_JSON

PINS_DOMAIN = "holdfast.pins"


class _Pins(msgspec.Struct, frozen=True):
    """The configuration of the domain."""

    pins: dict[str, int]


def pins_of(state: DeltaState) -> Mapping[str, int]:
    """The pinned versions of a table, by name."""
    domain = state.domains.get(PINS_DOMAIN)
    if domain is None or domain.configuration is None:
        return {}
    try:
        return msgspec.json.decode(domain.configuration, type=_Pins).pins
    except MALFORMED_JSON as error:
        raise Damaged(
            f"the pins {domain.configuration!r} cannot be read: {error}; nothing is vacuumed before the domain "
            f"{PINS_DOMAIN} is repaired",
            path=PINS_DOMAIN,
        ) from error


def encode_pins(pins: Mapping[str, int]) -> str | None:
    """The domain configuration for these pins; None where there are none."""
    return msgspec.json.encode(_Pins(dict(sorted(pins.items())))).decode() if pins else None


def refuse_without_domains(state: DeltaState) -> None:
    """Refuses pins on a table without domain metadata."""
    if "domainMetadata" not in writer_features(state.protocol):
        raise Invalid(
            f"pins are kept in the table's domains, which the table at {state.snapshot.location.url} does not have: "
            "call addFeatureSupport('domainMetadata') first (its writers must then know that feature)"
        )
