"""Writes manifests for engines that read lists of Parquet files (Presto, Athena), in the table's directory.

1. A manifest is replaced whole, so a reader sees the old list of a partition or the new one.
2. Manifests of partitions that no longer exist are deleted last; the table itself is not touched.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from holdfast.errors import Invalid
from holdfast.formats.delta.state import DeltaState
from holdfast.plan.maintain.manifest import manifests
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
        for partition, text in manifests(state.snapshot).items()
    }
    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(lambda entry: location.store.put(*entry), texts.items()))
    for entry in list(location.store.list_all(location.key(DIRECTORY))):
        if entry.name == _NAME and entry.key not in texts:
            delete_one(location, entry.key)
