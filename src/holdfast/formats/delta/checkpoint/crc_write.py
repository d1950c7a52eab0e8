"""Writes the `.crc` file of a version, with which readers compare their replayed state.

1. It is written once, after the commit; an existing file is never replaced.
2. Long lists are left out, above the limits that other engines use.
3. After a blind append it costs what the append costs, not what the table has (see `file_counts`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import UnknownVersion
from holdfast.formats.delta.checkpoint.file_counts import SIZE_BINS
from holdfast.formats.delta.log.actions import Json, encode_action
from holdfast.formats.delta.log.file_names import LOG, checksum_name, commit_name
from holdfast.formats.delta.log.times import in_commit_times
from holdfast.formats.delta.protocol.features import reader_features
from holdfast.formats.delta.state import DeltaState
from holdfast.formats.delta.stats.render import texts_of

MOST_FILES, MOST_TXNS, MOST_DOMAINS = 50, 100, 10


def write_crc(state: DeltaState, *, txn_id: str | None = None) -> str | None:
    """Writes the checksum file of a committed version; returns its name, or None where it exists already.

    `txn_id` is the one in the commitInfo of the version, for a caller that has just written it.
    """
    location = state.snapshot.location
    if state.commit is None:
        raise UnknownVersion(
            f"version {state.version} of the table at {location.url} has no {commit_name(state.version)}: only a "
            "version whose commit is there is given a checksum",
            version=state.version,
        )
    name = checksum_name(state.version)
    body = msgspec.json.encode(crc_body(state, txn_id=txn_id))
    return name if location.store.put_if_absent(location.key(LOG, name), body) else None


def crc_body(state: DeltaState, *, txn_id: str | None = None) -> Json:
    """The contents of the `.crc` file of a state."""
    counts = state.file_counts.value
    body: Json = {} if txn_id is None else {"txnId": txn_id}
    body |= {"tableSizeBytes": counts.size_bytes, "numFiles": counts.files}
    histogram: Json = {}
    if "deletionVectors" in reader_features(state.protocol):
        body |= {"numDeletedRecordsOpt": counts.hidden_rows, "numDeletionVectorsOpt": counts.vectors}
        histogram = {"deletedRecordCountsHistogramOpt": {"deletedRecordCounts": counts.hidden_counts}}
    body |= {"numMetadata": 1, "numProtocol": 1}
    if in_commit_times(state.protocol, state.metadata) is not None:
        body["inCommitTimestampOpt"] = state.snapshot.timestamp_ms
    if len(state.txns) <= MOST_TXNS:
        body["setTransactions"] = [encode_action(txn) for txn in state.txns.values()]
    if len(state.domains) <= MOST_DOMAINS:
        body["domainMetadata"] = [encode_action(domain) for domain in state.domains.values()]
    body |= {
        "metadata": encode_action(state.metadata),
        "protocol": encode_action(state.protocol),
        "fileSizeHistogram": {
            "sortedBinBoundaries": SIZE_BINS,
            "fileCounts": counts.size_counts,
            "totalBytes": counts.size_totals,
        },
        **histogram,
    }
    if counts.files <= MOST_FILES:
        body["allFiles"] = _adds(state)
    return body


def _adds(state: DeltaState) -> list[Json]:
    return [
        _add(row, stats)
        for slab in state.snapshot.files.slabs
        for row, stats in zip(
            slab.files.to_pylist(maps_as_pydicts="lossy"), texts_of(slab.stats).to_pylist(), strict=True
        )
    ]


def _add(row: dict[str, Any], stats: str | None) -> Json:
    dv = row["dv"]
    vector = dv and {
        "storageType": dv["storage"],
        "pathOrInlineDv": dv["path"],
        "offset": dv["offset"],
        "sizeInBytes": dv["size"],
        "cardinality": dv["cardinality"],
    }
    action = {
        "path": row["path"],
        "partitionValues": row["partition_values"] or {},
        "size": row["size"],
        "modificationTime": row["modified_ms"],
        "dataChange": False,
        "stats": stats,
        "tags": row["tags"],
        "deletionVector": vector and {name: value for name, value in vector.items() if value is not None},
        "baseRowId": row["base_row_id"],
        "defaultRowCommitVersion": row["default_row_commit_version"],
        "clusteringProvider": row["clustering_provider"],
    }
    return {name: value for name, value in action.items() if value is not None}
