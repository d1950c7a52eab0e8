"""Actions as raw JSON values, and what is left of them after replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from urllib.parse import unquote
from uuid import UUID

from tests.support.smith_values import Json, dumps, uri_path, vector_blob, vector_file, z85

ROW_TRACKING = "delta.rowTracking"
_READER_FEATURES = {
    *("deletionVectors", "columnMapping", "timestampNtz", "v2Checkpoint", "typeWidening", "vacuumProtocolCheck"),
    *("variantType", "catalogManaged"),
}


def domain(name: str, configuration: Json, *, removed: bool = False) -> Json:
    """A domainMetadata action."""
    return {"domainMetadata": {"domain": name, "configuration": dumps(configuration), "removed": removed}}


def protocol(features: set[str]) -> Json:
    if not features:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    readers = sorted(features & _READER_FEATURES)
    if not readers:
        return {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": sorted(features)}
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": readers,
        "writerFeatures": sorted(features),
    }


def reconciled(commits: Sequence[Sequence[Json]], *, keep_removed_domains: bool = False) -> list[Json]:
    """What survives of these commits: removes of a commit stand against its past, adds against both."""
    latest: dict[tuple[str, ...], Json] = {}
    for commit in commits:
        for kinds in (("remove",), ("add", "protocol", "metaData", "txn", "domainMetadata")):
            for action in commit:
                ((kind, body),) = action.items()
                if kind in kinds:
                    key = _identity(kind, body)
                    latest.pop(key, None)
                    latest[key] = action
    dead = [
        key
        for key, action in latest.items()
        if "domainMetadata" in action and action["domainMetadata"]["removed"] and not keep_removed_domains
    ]
    return [_settled(action) for key, action in latest.items() if key not in dead]


def _identity(kind: str, body: Json) -> tuple[str, ...]:
    match kind:
        case "add" | "remove":
            return "file", unquote(body["path"]), dv_id(body)
        case "txn":
            return kind, body["appId"]
        case "domainMetadata":
            return kind, body["domain"]
        case _:
            return (kind,)


def _settled(action: Json) -> Json:
    """A replayed file action changes no data; it only says what is there."""
    ((kind, body),) = action.items()
    return {kind: {**body, "dataChange": False}} if kind in ("add", "remove") else action


def dv_id(body: Json) -> str:
    vector = body.get("deletionVector")
    if vector is None:
        return ""
    tail = f"@{vector['offset']}" if "offset" in vector else ""
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{tail}"


def inline_vector(hidden: frozenset[int]) -> Json:
    blob = vector_blob(hidden)
    return _vector("i", z85(blob), len(blob), len(hidden))


def packed_vectors(sets: Sequence[frozenset[int]], storage: str, name: UUID, url: str) -> tuple[str, bytes, list[Json]]:
    """A file of vectors: its path, its bytes, a descriptor for each: u relative, up with a prefix, p absolute."""
    assert storage in ("u", "up", "p"), f"no such storage: {storage}"
    prefix = "a8" if storage == "up" else ""
    path = f"{prefix}/deletion_vector_{name}.bin".lstrip("/")
    data, places = vector_file(sets)
    text = uri_path(f"{url}/{path}") if storage == "p" else prefix + z85(name.bytes)
    descriptors = [
        {**_vector(storage[0], text, size, len(hidden)), "offset": offset}
        for (offset, size), hidden in zip(places, sets, strict=True)
    ]
    return path, data, descriptors


def _vector(storage: str, text: str, size: int, cardinality: int) -> Json:
    return {"storageType": storage, "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": cardinality}


def checksum(actions: Sequence[Json], in_commit_timestamp: int | None) -> Json:
    """The version checksum of replayed actions."""

    def all_of(kind: str) -> list[Json]:
        return [action[kind] for action in actions if kind in action]

    adds = all_of("add")
    vectors = [add["deletionVector"]["cardinality"] for add in adds if "deletionVector" in add]
    body: Json = {
        "tableSizeBytes": sum(add["size"] for add in adds),
        "numFiles": len(adds),
        "numMetadata": 1,
        "numProtocol": 1,
        "numDeletedRecordsOpt": sum(vectors),
        "numDeletionVectorsOpt": len(vectors),
        "setTransactions": all_of("txn"),
        "domainMetadata": all_of("domainMetadata"),
        "metadata": all_of("metaData")[0],
        "protocol": all_of("protocol")[0],
    }
    return body if in_commit_timestamp is None else {**body, "inCommitTimestampOpt": in_commit_timestamp}


def lines(actions: Iterable[Json]) -> bytes:
    return "".join(dumps(action) + "\n" for action in actions).encode()


def column_ids(fields: Sequence[Json]) -> Iterator[int]:
    for field in fields:
        yield field["metadata"]["delta.columnMapping.id"]
        type_ = field["type"]
        while isinstance(type_, dict) and type_["type"] == "array":
            type_ = type_["elementType"]
        if isinstance(type_, dict) and type_["type"] == "struct":
            yield from column_ids(type_["fields"])
        elif isinstance(type_, dict):
            for part in (type_["keyType"], type_["valueType"]):
                if isinstance(part, dict) and part["type"] == "struct":
                    yield from column_ids(part["fields"])


def without_metadata(row: Json) -> Json:
    """A row of the model without what the model added."""
    added = ("_row_id", "_row_commit_version", "_row_index", "_file")
    return {k: v for k, v in row.items() if k not in added}


def split(items: Sequence[int], parts: int) -> list[Sequence[int]]:
    """The items in that many stretches of nearly equal length."""
    edges = [len(items) * i // parts for i in range(parts + 1)]
    return [items[a:b] for a, b in pairwise(edges)]
