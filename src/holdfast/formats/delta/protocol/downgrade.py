"""Which protocol a table has once it does without a feature, and which features it can do without.

1. What is dropped is no more in the protocol, and everything else is, listed or implied as before.
2. Where one of the old versions stands for exactly the features that are left, the table goes back to it.
3. A feature that another one of the table needs stays, and so does one that no table can be rid of; the refusal says
   why, and what to do.
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
_STAYS = {
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
    """The protocol without some features: that of an old version where one stands for the rest, else lists."""
    left = frozenset(table_features(protocol)) - dropped
    implied: frozenset[str] = frozenset()
    for writer, names in ((1, ()), *IMPLIED_BY_WRITER):
        implied |= frozenset(names)
        if implied == left:
            return Protocol(2 if "columnMapping" in left else 1, writer)
    reading = left & (READABLE | reader_features(protocol))
    return Protocol(
        min_reader_version=3 if reading else 1,
        min_writer_version=7,
        reader_features=tuple(sorted(reading)) if reading else None,
        writer_features=tuple(sorted(left)),
    )


def leaves_traces(name: str) -> bool:
    """Whether old versions hold what only a reader that knows the feature understands."""
    return name in READABLE


def refuse_kept(protocol: Protocol, name: str, *, truncates: bool) -> None:
    """Refuse to drop what cannot be dropped from this table, or not in this way."""
    has = table_features(protocol)
    if name not in has:
        if name in PROPERTIES:
            raise Invalid(f"{name} is a property and no feature: unset it instead")
        near = difflib.get_close_matches(name, has, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(has) or 'none'}"
        raise Invalid(f"the table has no feature {name} to drop: {hint}")
    if needing := sorted(other for other in has if NEEDS.get(other) == name):
        raise Invalid(f"the feature {name} cannot be dropped while {', '.join(needing)} needs it: drop that one first")
    if name in _STAYS:
        raise Unsupported(f"the feature {name} cannot be dropped: {_STAYS[name]}", features=(name,))
    if name not in REMOVABLE:
        raise Unsupported(f"Holdfast does not know how to drop the feature {name}", features=(name,))
    if truncates and not leaves_traces(name) and name != PROTECTION:
        raise Invalid(f"old versions stay as they are without {name}: leave TRUNCATE HISTORY out")
    if name == PROTECTION and not truncates:
        raise Invalid(
            f"{PROTECTION} keeps old versions readable that have features which were dropped since: it goes with "
            f"them, with DROP FEATURE {PROTECTION} TRUNCATE HISTORY"
        )
