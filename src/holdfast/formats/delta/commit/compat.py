"""Tables that promise to be readable as Iceberg tables: what a commit to one must not break.

The promise is active where the protocol has the feature and the property is true. Files are written as it asks:
partition columns inside, ids of nested columns and of carried row ids. What remains is for the commit to refuse.

1. Neither columns, nor partitioning, nor what the protocol demands changes while a promise is active; switching it off
   is always allowed.
2. Versions 1 and 2 have no deletion vectors, and no version takes back files that may be older than the promise.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from holdfast.errors import Unsupported
from holdfast.formats.delta.commit.rehide import Rehidden
from holdfast.formats.delta.log.actions import Metadata, Protocol
from holdfast.formats.delta.protocol.features import writer_features
from holdfast.formats.delta.state import DeltaState
from holdfast.model.mutation import Mutation
from holdfast.schema.enforce import DEFAULT
from holdfast.schema.properties import (
    COLUMN_MAPPING_MODE,
    ENABLE_ROW_TRACKING,
    ICEBERG_COMPAT,
    truth,
)
from holdfast.schema.show import type_text
from holdfast.schema.types import Struct

_HELD = (COLUMN_MAPPING_MODE, ENABLE_ROW_TRACKING, "delta.enableDeletionVectors")
_UNIFORM = "delta.universalFormat.enabledFormats"
_WITHOUT_VECTORS = ("icebergCompatV1", "icebergCompatV2")


def active_compat(protocol: Protocol, properties: Mapping[str, str | None]) -> tuple[str, ...]:
    """The promises that a table makes, by the names of their features."""
    listed = writer_features(protocol)
    return tuple(f for name, f in ICEBERG_COMPAT.items() if f in listed and truth(properties.get(name)))


def refuse_breaking(
    state: DeltaState, mutation: Mutation, metadata: Metadata, protocol: Protocol, rehidden: Rehidden
) -> None:
    """Refuse a commit that breaks a promise which holds before and after it; it is to leave this metadata."""
    was = active_compat(state.protocol, state.metadata.properties)
    held = [name for name in active_compat(protocol, metadata.properties) if name in was]
    if not held:
        return
    what = _broken(state, mutation, metadata, protocol)
    if any(name in _WITHOUT_VECTORS for name in held) and _hides(mutation, rehidden):
        what = "deletion vectors"
    if what is not None:
        properties = [name for name, feature in ICEBERG_COMPAT.items() if feature in held]
        properties += [_UNIFORM] if _UNIFORM in metadata.properties else []  # which needs the promise
        raise Unsupported(
            f"the table at {state.snapshot.location.url} promises {', '.join(held)}, and {mutation.operation} would "
            f"bring {what}: leave that to the engine that made the table, or end the promise with "
            f"unsetProperties({properties})",
            features=tuple(held),
        )


def _broken(state: DeltaState, mutation: Mutation, metadata: Metadata, protocol: Protocol) -> str | None:
    shape, old = mutation.shape, state.metadata
    if shape is not None and _columns(shape.schema) != _columns(state.snapshot.schema):
        return "other columns"
    if metadata.partition_columns != old.partition_columns:
        return "other partition columns"
    if protocol != state.protocol:
        return "other features"
    if any(metadata.properties.get(name) != old.properties.get(name) for name in _HELD):
        return "other ways to store rows"
    if _returns(state, mutation):
        return "files of an earlier version, which may be older than the promise"
    return None


def _hides(mutation: Mutation, rehidden: Rehidden) -> bool:
    return bool(rehidden.again.num_rows or rehidden.born or pc.any(pc.is_valid(mutation.readded["dv"])).as_py())


def _returns(state: DeltaState, mutation: Mutation) -> bool:
    """Whether files come back that the table does not have."""
    if not mutation.readded.num_rows:
        return False
    keys = state.snapshot.files.column("key").combine_chunks()
    return not pc.all(pc.is_in(mutation.readded["key"], value_set=keys)).as_py()


def _columns(schema: Struct) -> list[tuple[object, ...]]:
    return [
        (f.name, type_text(f.type), f.nullable, f.field_id, f.physical_name, f.metadata.get(DEFAULT))
        for f in schema.fields
    ]
