"""Symlink manifests of a Delta snapshot: lists of file paths, one per partition, for engines without Delta. Pure.

1. A manifest names every file of its partition by an absolute, decoded path in the user's spelling.
2. An unpartitioned table has one manifest, even when it has no file.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid, Unsupported
from holdfast.model.snapshot import Snapshot
from holdfast.schema.partition import column
from holdfast.schema.partition_text import directory
from holdfast.schema.properties import COLUMN_MAPPING_MODE
from holdfast.storage.arrays import strings


def manifests(snapshot: Snapshot) -> Mapping[str, bytes]:
    """The text of each manifest by partition directory; the key is empty for an unpartitioned table."""
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
