"""The rows of a checkpoint: a state as Arrow tables, one nullable struct column per kind of action.

Files go from the columns of a snapshot to the columns of a checkpoint, a stretch at a time: never an object per file,
and never all statistics at once.

1. Names and types are those other engines write; a field that is null in the state is null here.
2. File actions carry row ids, row commit versions and vectors as they are, and `dataChange` false.
3. Where partition texts are no values of their columns' types, `partitionValues_parsed` is left out: a null would say
   something else.
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
from holdfast.storage.arrays import mask

STRETCH = 50_000  # rows made at a time, and written as one row group
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
class Plan:
    """What the `add` column of a checkpoint holds beside what every `add` has."""

    texts: bool
    leaves: Mapping[LeafPath, DataType] | None  # of `stats_parsed`; None: none is written
    partitions: tuple[Field, ...]  # of `partitionValues_parsed`; empty: none is written

    @property
    def add(self) -> pa.DataType:
        more = [("stats", pa.string())] if self.texts else []
        if self.partitions:
            more.append(("partitionValues_parsed", _typed_partitions(None, self.partitions).type))
        if self.leaves is not None:
            more.append(("stats_parsed", struct_type(self.leaves)))
        return pa.struct([*_ADD, *more])

    @property
    def files(self) -> pa.Schema:
        """The columns of file actions."""
        return pa.schema([("add", self.add), ("remove", REMOVE)])

    @property
    def everything(self) -> pa.Schema:
        """The columns of a checkpoint in one file."""
        return pa.schema([("txn", _PLAIN["txn"]), *self.files, *((k, _PLAIN[k]) for k in _PLAIN if k != "txn")])


def plan_rows(state: DeltaState) -> Plan:
    """What the table's settings ask of its checkpoints."""
    properties = state.metadata.properties
    texts = truth(properties.get(STATS_AS_JSON), default=True)
    if not truth(properties.get(STATS_AS_STRUCT)):
        return Plan(texts, None, ())
    partitions = tuple(f for f in state.snapshot.schema if f.name in state.snapshot.partition_columns)
    try:
        _typed_partitions(state.snapshot.files.column("partition_values"), partitions)
    except Damaged:
        partitions = ()
    return Plan(texts, kept_leaves(state), partitions)


def kept_leaves(state: DeltaState) -> dict[LeafPath, DataType]:
    """The leaves whose statistics the table keeps, by physical name, and their types."""
    shot = state.snapshot
    types = {tuple(f.physical_name for f in path): type_ for path, type_ in leaves(shot.schema)}
    kept = stats_leaves(shot.schema, shot.partition_columns, state.metadata.properties, shot.clustering_columns)
    return {path: types[path] for path in kept}


def plain_actions(
    protocol: Protocol, metadata: Metadata, txns: Sequence[Txn], domains: Sequence[DomainMetadata]
) -> list[Json]:
    """Every action of a checkpoint that is not about a file, as JSON values in their envelopes."""
    return [
        {"protocol": encode_action(protocol)},
        {"metaData": encode_action(metadata)},
        *({"txn": encode_action(txn)} for txn in txns),
        *({"domainMetadata": encode_action(domain)} for domain in domains),
    ]


def plain_rows(actions: Sequence[Json], plan: Plan) -> pa.Table:
    """Those actions as rows of a checkpoint in one file."""
    columns = [
        pa.array([_itemized(action[f.name]) if f.name in action else None for action in actions], f.type)
        for f in plan.everything
    ]
    return pa.Table.from_arrays(columns, schema=plan.everything)


def file_rows(state: DeltaState, removed: pa.Table, plan: Plan) -> Iterator[pa.Table]:
    """Live files, then removed ones, with the columns of `plan.files`, at most STRETCH at a time."""
    add = plan.add
    for slab in state.snapshot.files.slabs:
        texts = texts_of(slab.stats) if plan.texts else None
        structs = structs_of(slab.stats, plan.leaves) if plan.leaves is not None else None
        for start in range(0, slab.files.num_rows, STRETCH):
            files = slab.files.slice(start, STRETCH)
            more = [found.slice(start, STRETCH) for found in (structs,) if found is not None]
            if plan.partitions:
                more.insert(0, _typed_partitions(files.column("partition_values"), plan.partitions))
            if texts is not None:
                more.insert(0, texts.slice(start, STRETCH))
            adds = pa.StructArray.from_arrays([*_adds(files), *more], fields=list(add))
            yield pa.Table.from_arrays([adds, pa.nulls(len(adds), REMOVE)], schema=plan.files)
    for start in range(0, removed.num_rows, STRETCH):
        gone = _removes(removed.slice(start, STRETCH))
        yield pa.Table.from_arrays([pa.nulls(len(gone), add), gone], schema=plan.files)


def _adds(files: pa.Table) -> list[pa.Array]:
    one = {name: _one(files.column(name)) for name in files.column_names}
    return [
        *(one[name] for name in ("path", "partition_values", "size", "modified_ms")),
        _falses(files.num_rows),
        one["tags"],
        _vectors(one["dv"]),
        *(one[name] for name in ("base_row_id", "default_row_commit_version", "clustering_provider")),
    ]


def _removes(files: pa.Table) -> pa.StructArray:
    one = {name: _one(files.column(name)) for name in files.column_names}
    return pa.StructArray.from_arrays(
        [
            one["path"],
            one["deleted_ms"],
            _falses(files.num_rows),
            pc.and_(pc.is_valid(one["partition_values"]), pc.is_valid(one["size"])),
            one["partition_values"],
            one["size"],
            _vectors(one["dv"]),
            one["base_row_id"],
            one["default_row_commit_version"],
        ],
        fields=list(REMOVE),
    )


def _vectors(found: pa.StructArray) -> pa.StructArray:
    storage, path, offset, size, cardinality = (
        pc.struct_field(found, name) for name in ("storage", "path", "offset", "size", "cardinality")
    )
    return pa.StructArray.from_arrays(
        [
            storage,
            path,
            offset.cast(pa.int32()),
            size.cast(pa.int32()),
            cardinality,
            pa.nulls(len(found), pa.int64()),
        ],
        fields=list(_VECTOR),
        mask=pc.is_null(found),
    )


def _typed_partitions(texts: pa.ChunkedArray | None, fields: Sequence[Field]) -> pa.StructArray:
    maps = pa.chunked_array([], STRINGS) if texts is None else texts
    values = [typed(column(maps, f.physical_name), f.type, where=f"the column {f.name}") for f in fields]
    return pa.StructArray.from_arrays(values, [f.physical_name for f in fields])


def _falses(length: int) -> pa.Array:
    return mask(np.zeros(length, bool))


def _one(found: pa.ChunkedArray) -> pa.Array:
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


def _itemized(action: Json) -> Json:
    """An action whose maps are spelled as Arrow takes them."""
    if "schemaString" not in action and "configuration" not in action:
        return action
    stored = action.get("format")
    spelled = dict(action)
    if stored is not None:
        spelled["format"] = stored | {"options": list(stored["options"].items())}
    if isinstance(action.get("configuration"), dict):
        spelled["configuration"] = list(action["configuration"].items())
    return spelled
