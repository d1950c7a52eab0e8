"""Symlink manifests: lists of Parquet files beside the table, for engines such as Presto and Athena.

1. A manifest is replaced whole, so a reader sees the old list of a partition or the new one.
2. Manifests of partitions that no longer exist are deleted last; the table itself is not touched.
3. A manifest names every live file of its partition by an absolute, decoded path in the user's own spelling.
4. An unpartitioned table has one manifest, even when it has no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid, Unsupported
from holdfast.formats.delta.state import DeltaState
from holdfast.model.snapshot import Snapshot
from holdfast.schema.partition import column
from holdfast.schema.partition_text import directory
from holdfast.schema.properties import COLUMN_MAPPING_MODE
from holdfast.storage.arrays import strings
from holdfast.storage.leftovers import delete_one

SYMLINK_FORMAT = "symlink_format_manifest"
DIRECTORY = f"_{SYMLINK_FORMAT}"
_NAME = "manifest"
_WRITERS = 16


def generate(state: DeltaState, mode: str) -> None:
    """Write the manifests of a version."""
    if mode.strip().lower() != SYMLINK_FORMAT:
        raise Invalid(f"{mode!r} cannot be generated: the one mode there is, is {SYMLINK_FORMAT!r}")
    location = state.snapshot.location
    texts = {
        location.key(*filter(None, (DIRECTORY, partition, _NAME))): text
        for partition, text in _manifests(state.snapshot).items()
    }
    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(lambda entry: location.store.put(*entry), texts.items()))
    for entry in list(location.store.list_all(location.key(DIRECTORY))):
        if entry.name == _NAME and entry.key not in texts:
            delete_one(location, entry.key)


def _manifests(snapshot: Snapshot) -> Mapping[str, bytes]:
    """The text of each manifest, by the directory of its partition; the empty one where there are none."""
    where = snapshot.location.url
    if snapshot.properties.get(COLUMN_MAPPING_MODE, "none").lower() != "none":
        raise Unsupported(f"a manifest names files, not columns, and the columns of {where} are mapped to other names")
    files = snapshot.files
    if hiding := len(files) - files.column("dv").null_count:
        raise Invalid(
            f"{hiding} files of {where} hide rows by deletion vectors, which a manifest knows nothing of: purge() first"
        )
    paths = strings([snapshot.location.spark_path(key) for key in files.column("key").to_pylist()])  # one per file
    if not snapshot.partition_columns:
        return {"": _text(paths)}
    table = pa.table({"directory": _directories(snapshot), "path": paths})
    grouped = table.group_by("directory").aggregate([("path", "list")])
    return {row["directory"]: _text(strings(row["path_list"])) for row in grouped.to_pylist()}  # one per partition


def _directories(snapshot: Snapshot) -> pa.Array:
    """The directory of each file's partition, as Hive spells it."""
    parts = []
    for name in snapshot.partition_columns:
        texts = column(snapshot.files.column("partition_values"), name).fill_null("").dictionary_encode()
        spelled = strings([directory(name, text or None) for text in texts.dictionary.to_pylist()])
        parts.append(spelled.take(texts.indices))
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")


def _text(paths: pa.Array) -> bytes:
    return "".join(f"{path}\n" for path in paths.to_pylist()).encode()
