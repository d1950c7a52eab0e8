"""Drops table features: which features can be dropped, and the protocol without them.

1. The new protocol has all features but the dropped ones, listed or implied as before.
2. Where an old writer version implies exactly the remaining features, the table goes back to that version.
3. A feature that another one needs is refused, and so is one that cannot be dropped; the error says why, and what to
   do instead.
"""

from __future__ import annotations

import difflib

from holdfast.errors import Invalid, Unsupported
from holdfast.formats.delta.log.actions import Protocol
from holdfast.formats.delta.protocol.features import IMPLIED_BY_WRITER, READABLE, reader_features, table_features
from holdfast.formats.delta.protocol.upgrade import NEEDS
from holdfast.schema.properties import PROPERTIES

PROTECTION = "checkpointProtection"
WIDENING = frozenset(("typeWidening", "typeWidening-preview"))
REMOVABLE = WIDENING | {
    "checkConstraints",
    "columnMapping",
    "deletionVectors",
    "domainMetadata",
    "inCommitTimestamp",
    "rowTracking",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    PROTECTION,
}
_NOT_DROPPABLE = {
    "allowColumnDefaults": "columns may have defaults: drop these with ALTER COLUMN ... DROP DEFAULT",
    "appendOnly": "every version of the protocol has it: set the property delta.appendOnly to false",
    "changeDataFeed": "set the property delta.enableChangeDataFeed to false",
    "clustering": "cluster the table by nothing instead, with CLUSTER BY NONE",
    "generatedColumns": "columns may be generated: write the rows to a new table without them",
    "identityColumns": "columns may be numbered: write the rows to a new table without them",
    "invariants": "every version of the protocol has it",
    "timestampNtz": "columns may have that type: write the rows to a new table without them",
    "variantType": "columns may have that type: write the rows to a new table without them",
}


def without(protocol: Protocol, dropped: frozenset[str]) -> Protocol:
    """The protocol without some features, with an old writer version where it implies exactly the rest."""
    remaining = frozenset(table_features(protocol)) - dropped
    implied: frozenset[str] = frozenset()
    for writer, names in ((1, ()), *IMPLIED_BY_WRITER):
        implied |= frozenset(names)
        if implied == remaining:
            return Protocol(2 if "columnMapping" in remaining else 1, writer)
    reader = remaining & (READABLE | reader_features(protocol))
    return Protocol(
        min_reader_version=3 if reader else 1,
        min_writer_version=7,
        reader_features=tuple(sorted(reader)) if reader else None,
        writer_features=tuple(sorted(remaining)),
    )


def is_reader_feature(name: str) -> bool:
    """Whether readers must know the feature, so that old versions may contain it."""
    return name in READABLE


def refuse_undroppable(protocol: Protocol, name: str, *, truncates: bool) -> None:
    """Refuses to drop a feature that this table cannot drop, or not in this way."""
    features = table_features(protocol)
    if name not in features:
        if name in PROPERTIES:
            raise Invalid(f"{name} is a property and no feature: unset it instead")
        matches = difflib.get_close_matches(name, features, n=1, cutoff=0.6)
        hint = f"did you mean {matches[0]}?" if matches else f"it has {', '.join(features) or 'none'}"
        raise Invalid(f"the table has no feature {name} to drop: {hint}")
    if dependents := sorted(other for other in features if NEEDS.get(other) == name):
        raise Invalid(
            f"the feature {name} cannot be dropped while {', '.join(dependents)} needs it: drop that one first"
        )
    if name in _NOT_DROPPABLE:
        raise Unsupported(f"the feature {name} cannot be dropped: {_NOT_DROPPABLE[name]}", features=(name,))
    if name not in REMOVABLE:
        raise Unsupported(f"Holdfast does not know how to drop the feature {name}", features=(name,))
    if truncates and not is_reader_feature(name) and name != PROTECTION:
        raise Invalid(f"old versions stay as they are without {name}: leave TRUNCATE HISTORY out")
    if name == PROTECTION and not truncates:
        raise Invalid(
            f"{PROTECTION} keeps old versions readable that have features which were dropped since: it goes with "
            f"them, with DROP FEATURE {PROTECTION} TRUNCATE HISTORY"
        )
