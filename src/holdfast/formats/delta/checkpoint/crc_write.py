"""The `.crc` file of a version: what a reader may compare its own replay with.

1. It is written after the commit, once; a version's file is never replaced.
2. Lists that may grow long are left out above the limits other engines keep.
3. After a blind append it costs what the append costs, not what the table has (see `tally`).
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec

from holdfast.errors import UnknownVersion
from holdfast.formats.delta.checkpoint.tally import SIZE_BINS
from holdfast.formats.delta.log.actions import Json, encode_action
from holdfast.formats.delta.log.file_names import LOG, checksum_name, commit_name
from holdfast.formats.delta.log.times import in_commit_times
from holdfast.formats.delta.protocol.features import reader_features
from holdfast.formats.delta.state import DeltaState
from holdfast.formats.delta.stats.render import texts_of

MOST_FILES, MOST_TXNS, MOST_DOMAINS = 50, 100, 10


def write_crc(state: DeltaState, *, txn_id: str | None = None) -> str | None:
    """Write the checksum of a version that is committed; its name, or None when it has one already.

    `txn_id` is the id in the version's commitInfo, for a caller that has just written it.
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
    """What the `.crc` file of a state says."""
    tally = state.tally.value
    body: Json = {} if txn_id is None else {"txnId": txn_id}
    body |= {"tableSizeBytes": tally.size_bytes, "numFiles": tally.files}
    counts: Json = {}
    if "deletionVectors" in reader_features(state.protocol):
        body |= {"numDeletedRecordsOpt": tally.hidden_rows, "numDeletionVectorsOpt": tally.vectors}
        counts = {"deletedRecordCountsHistogramOpt": {"deletedRecordCounts": tally.hidden_counts}}
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
            "fileCounts": tally.size_counts,
            "totalBytes": tally.size_totals,
        },
        **counts,
    }
    if tally.files <= MOST_FILES:
        body["allFiles"] = _adds(state)
    return body


def _adds(state: DeltaState) -> list[Json]:
    slabs = state.snapshot.files.slabs
    texts = chain.from_iterable(texts_of(slab.stats).to_pylist() for slab in slabs)
    rows = chain.from_iterable(slab.files.to_pylist(maps_as_pydicts="lossy") for slab in slabs)
    return [_add(row, stats) for row, stats in zip(rows, texts, strict=True)]


def _add(row: dict[str, Any], stats: str | None) -> Json:
    dv = row["dv"]
    vector = dv and {
        "storageType": dv["storage"],
        "pathOrInlineDv": dv["path"],
        "offset": dv["offset"],
        "sizeInBytes": dv["size"],
        "cardinality": dv["cardinality"],
    }
    said = {
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
    return {name: value for name, value in said.items() if value is not None}
