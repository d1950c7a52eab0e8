"""Refuses commits that break IcebergCompat, the promise that a table is readable as an Iceberg table.

IcebergCompat is active where the protocol has the feature and the property is true. Writers of files follow it:
partition columns are in the files, and nested columns and materialized row ids have field ids.

1. While it is active, columns, partitioning and protocol do not change; it can always be disabled.
2. Versions 1 and 2 have no deletion vectors, and no version restores files that may be older than the promise.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from holdfast.errors import Unsupported
from holdfast.formats.delta.commit.dv_update import DvUpdate
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

_FIXED = (COLUMN_MAPPING_MODE, ENABLE_ROW_TRACKING, "delta.enableDeletionVectors")
_UNIFORM = "delta.universalFormat.enabledFormats"
_WITHOUT_DVS = ("icebergCompatV1", "icebergCompatV2")


def active_compat(protocol: Protocol, properties: Mapping[str, str | None]) -> tuple[str, ...]:
    """The active IcebergCompat features of a table."""
    listed = writer_features(protocol)
    return tuple(f for name, f in ICEBERG_COMPAT.items() if f in listed and truth(properties.get(name)))


def refuse_breaking(
    state: DeltaState, mutation: Mutation, metadata: Metadata, protocol: Protocol, dv_update: DvUpdate
) -> None:
    """Refuses a commit that breaks a feature which is active before and after it, with this metadata."""
    before = active_compat(state.protocol, state.metadata.properties)
    active = [name for name in active_compat(protocol, metadata.properties) if name in before]
    if not active:
        return
    change = _forbidden_change(state, mutation, metadata, protocol)
    if any(name in _WITHOUT_DVS for name in active) and _hides(mutation, dv_update):
        change = "deletion vectors"
    if change is not None:
        properties = [name for name, feature in ICEBERG_COMPAT.items() if feature in active]
        properties += [_UNIFORM] if _UNIFORM in metadata.properties else []  # which needs the promise
        raise Unsupported(
            f"the table at {state.snapshot.location.url} promises {', '.join(active)}, and {mutation.operation} would "
            f"bring {change}: leave that to the engine that made the table, or end the promise with "
            f"unsetProperties({properties})",
            features=tuple(active),
        )


def _forbidden_change(state: DeltaState, mutation: Mutation, metadata: Metadata, protocol: Protocol) -> str | None:
    definition, old = mutation.shape, state.metadata
    if definition is not None and _columns(definition.schema) != _columns(state.snapshot.schema):
        return "other columns"
    if metadata.partition_columns != old.partition_columns:
        return "other partition columns"
    if protocol != state.protocol:
        return "other features"
    if any(metadata.properties.get(name) != old.properties.get(name) for name in _FIXED):
        return "other ways to store rows"
    if _restores_files(state, mutation):
        return "files of an earlier version, which may be older than the promise"
    return None


def _hides(mutation: Mutation, dv_update: DvUpdate) -> bool:
    return bool(dv_update.readded.num_rows or dv_update.of_new or pc.any(pc.is_valid(mutation.readded["dv"])).as_py())


def _restores_files(state: DeltaState, mutation: Mutation) -> bool:
    """Whether the mutation adds files of earlier versions."""
    if not mutation.readded.num_rows:
        return False
    keys = state.snapshot.files.column("key").combine_chunks()
    return not pc.all(pc.is_in(mutation.readded["key"], value_set=keys)).as_py()


def _columns(schema: Struct) -> list[tuple[object, ...]]:
    return [
        (f.name, type_text(f.type), f.nullable, f.field_id, f.physical_name, f.metadata.get(DEFAULT))
        for f in schema.fields
    ]
