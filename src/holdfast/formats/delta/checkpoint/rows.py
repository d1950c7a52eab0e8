"""Converts a state to the rows of a checkpoint: Arrow tables with one nullable struct column per kind of action.

The columns of a snapshot become the columns of a checkpoint in batches, without an object per file and without all
statistics in memory at once.

1. Names and types are those of other engines; a field that is null in the state is null here.
2. File actions keep row ids, row commit versions and deletion vectors, and have `dataChange` false.
3. Where the text of a partition value is no value of the column's type, `partitionValues_parsed` is left out, because
   a null there would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged
from holdfast.formats.delta.log.actions import DomainMetadata, Json, Metadata, Protocol, Txn, encode_action
from holdfast.formats.delta.state import DeltaState
from holdfast.formats.delta.stats.render import struct_type, structs_of, texts_of
from holdfast.model.files import STRINGS, LeafPath
from holdfast.schema.partition import column, typed
from holdfast.schema.properties import truth
from holdfast.schema.stats_leaves import stats_leaves
from holdfast.schema.types import DataType, Field, leaves
from holdfast.storage.arrays import mask, one_array

BATCH_ROWS = 50_000  # rows that are converted at a time and written as one row group
STATS_AS_JSON = "delta.checkpoint.writeStatsAsJson"
STATS_AS_STRUCT = "delta.checkpoint.writeStatsAsStruct"

_NAMES = pa.list_(pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
        ("maxRowIndex", pa.int64()),
    ]
)
_ADD = (
    ("path", pa.string()),
    ("partitionValues", STRINGS),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("tags", STRINGS),
    ("deletionVector", _VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
    ("clusteringProvider", pa.string()),
)
REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRINGS),
        ("size", pa.int64()),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
_PLAIN = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", STRINGS)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _NAMES),
            ("configuration", STRINGS),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _NAMES),
            ("writerFeatures", _NAMES),
        ]
    ),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}


@dataclass(frozen=True, slots=True)
class CheckpointSchema:
    """The optional fields of the `add` column of a checkpoint."""

    texts: bool
    leaves: Mapping[LeafPath, DataType] | None  # of `stats_parsed`; None: none is written
    partitions: tuple[Field, ...]  # of `partitionValues_parsed`; empty: none is written

    @property
    def add(self) -> pa.DataType:
        optional = [("stats", pa.string())] if self.texts else []
        if self.partitions:
            optional.append(("partitionValues_parsed", _typed_partitions(None, self.partitions).type))
        if self.leaves is not None:
            optional.append(("stats_parsed", struct_type(self.leaves)))
        return pa.struct([*_ADD, *optional])

    @property
    def files(self) -> pa.Schema:
        """The columns of file actions."""
        return pa.schema([("add", self.add), ("remove", REMOVE)])

    @property
    def everything(self) -> pa.Schema:
        """The columns of a checkpoint in one file."""
        return pa.schema([("txn", _PLAIN["txn"]), *self.files, *((k, _PLAIN[k]) for k in _PLAIN if k != "txn")])


def checkpoint_schema(state: DeltaState) -> CheckpointSchema:
    """The schema of a table's checkpoints, which its properties choose."""
    properties = state.metadata.properties
    texts = truth(properties.get(STATS_AS_JSON), default=True)
    if not truth(properties.get(STATS_AS_STRUCT)):
        return CheckpointSchema(texts, None, ())
    partitions = tuple(f for f in state.snapshot.schema if f.name in state.snapshot.partition_columns)
    try:
        _typed_partitions(state.snapshot.files.column("partition_values"), partitions)
    except Damaged:
        partitions = ()
    return CheckpointSchema(texts, kept_leaves(state), partitions)


def kept_leaves(state: DeltaState) -> dict[LeafPath, DataType]:
    """The leaves whose statistics the table keeps, by physical name, and their types."""
    snapshot = state.snapshot
    types = {tuple(f.physical_name for f in path): type_ for path, type_ in leaves(snapshot.schema)}
    kept = stats_leaves(
        snapshot.schema, snapshot.partition_columns, state.metadata.properties, snapshot.clustering_columns
    )
    return {path: types[path] for path in kept}


def plain_actions(
    protocol: Protocol, metadata: Metadata, txns: Sequence[Txn], domains: Sequence[DomainMetadata]
) -> list[Json]:
    """The actions of a checkpoint other than file actions, as JSON values in their envelopes."""
    return [
        {"protocol": encode_action(protocol)},
        {"metaData": encode_action(metadata)},
        *({"txn": encode_action(txn)} for txn in txns),
        *({"domainMetadata": encode_action(domain)} for domain in domains),
    ]


def plain_rows(actions: Sequence[Json], schema: CheckpointSchema) -> pa.Table:
    """Actions other than file actions as rows of a classic checkpoint."""
    columns = [
        pa.array([_itemized(action[f.name]) if f.name in action else None for action in actions], f.type)
        for f in schema.everything
    ]
    return pa.Table.from_arrays(columns, schema=schema.everything)


def file_rows(state: DeltaState, removed: pa.Table, schema: CheckpointSchema) -> Iterator[pa.Table]:
    """Live files, then tombstones, with the columns of `schema.files`, at most BATCH_ROWS at a time."""
    add = schema.add
    for slab in state.snapshot.files.slabs:
        texts = texts_of(slab.stats) if schema.texts else None
        structs = structs_of(slab.stats, schema.leaves) if schema.leaves is not None else None
        for start in range(0, slab.files.num_rows, BATCH_ROWS):
            files = slab.files.slice(start, BATCH_ROWS)
            optional = [] if texts is None else [texts.slice(start, BATCH_ROWS)]
            if schema.partitions:
                optional.append(_typed_partitions(files.column("partition_values"), schema.partitions))
            if structs is not None:
                optional.append(structs.slice(start, BATCH_ROWS))
            adds = pa.StructArray.from_arrays([*_adds(files), *optional], fields=list(add))
            yield pa.Table.from_arrays([adds, pa.nulls(len(adds), REMOVE)], schema=schema.files)
    for start in range(0, removed.num_rows, BATCH_ROWS):
        removes = _removes(removed.slice(start, BATCH_ROWS))
        yield pa.Table.from_arrays([pa.nulls(len(removes), add), removes], schema=schema.files)


def _adds(files: pa.Table) -> list[pa.Array]:
    columns = {name: one_array(files.column(name)) for name in files.column_names}
    return [
        *(columns[name] for name in ("path", "partition_values", "size", "modified_ms")),
        _falses(files.num_rows),
        columns["tags"],
        _dv_column(columns["dv"]),
        *(columns[name] for name in ("base_row_id", "default_row_commit_version", "clustering_provider")),
    ]


def _removes(files: pa.Table) -> pa.StructArray:
    columns = {name: one_array(files.column(name)) for name in files.column_names}
    return pa.StructArray.from_arrays(
        [
            columns["path"],
            columns["deleted_ms"],
            _falses(files.num_rows),
            pc.and_(pc.is_valid(columns["partition_values"]), pc.is_valid(columns["size"])),
            columns["partition_values"],
            columns["size"],
            _dv_column(columns["dv"]),
            columns["base_row_id"],
            columns["default_row_commit_version"],
        ],
        fields=list(REMOVE),
    )


def _dv_column(vectors: pa.StructArray) -> pa.StructArray:
    storage, path, offset, size, cardinality = (
        pc.struct_field(vectors, name) for name in ("storage", "path", "offset", "size", "cardinality")
    )
    return pa.StructArray.from_arrays(
        [
            storage,
            path,
            offset.cast(pa.int32()),
            size.cast(pa.int32()),
            cardinality,
            pa.nulls(len(vectors), pa.int64()),
        ],
        fields=list(_VECTOR),
        mask=pc.is_null(vectors),
    )


def _typed_partitions(texts: pa.ChunkedArray | None, fields: Sequence[Field]) -> pa.StructArray:
    maps = pa.chunked_array([], STRINGS) if texts is None else texts
    values = [typed(column(maps, f.physical_name), f.type, where=f"the column {f.name}") for f in fields]
    return pa.StructArray.from_arrays(values, [f.physical_name for f in fields])


def _falses(length: int) -> pa.Array:
    return mask(np.zeros(length, bool))


def _itemized(action: Json) -> Json:
    """An action with its maps as lists of pairs, which Arrow requires."""
    if "schemaString" not in action and "configuration" not in action:
        return action
    format_ = action.get("format")
    itemized = dict(action)
    if format_ is not None:
        itemized["format"] = format_ | {"options": list(format_["options"].items())}
    if isinstance(action.get("configuration"), dict):
        itemized["configuration"] = list(action["configuration"].items())
    return itemized
