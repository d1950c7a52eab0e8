"""Pinned versions: names for versions whose files and log no vacuum and no cleanup of ours takes.

They are kept in the table itself, as the domain `holdfast.pins`, so that they are as atomic as any commit and every
writer that carries domains carries them. Other engines do not look at them.

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


def rendered(pins: Mapping[str, int]) -> str | None:
    """The configuration that says these pins; None where there are none to say."""
    return msgspec.json.encode(_Pins(dict(sorted(pins.items())))).decode() if pins else None


def refuse_without_domains(state: DeltaState) -> None:
    """Refuse pins on a table that cannot keep them."""
    if "domainMetadata" not in writer_features(state.protocol):
        raise Invalid(
            f"pins are kept in the table's domains, which the table at {state.snapshot.location.url} does not have: "
            "call addFeatureSupport('domainMetadata') first (its writers must then know that feature)"
        )
