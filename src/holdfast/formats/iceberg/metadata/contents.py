"""The manifests, data files and delete files of a snapshot, read on first use.

1. A manifest never changes, so one that an earlier state has read is not read again.
2. Manifests are fetched in parallel and kept as columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import pyarrow as pa

from holdfast.formats.iceberg.deletes.scope import DeleteFiles
from holdfast.formats.iceberg.metadata.file_table import ManifestTypes, build_file_table
from holdfast.formats.iceberg.metadata.manifests import (
    ManifestEntries,
    ManifestFile,
    manifest_files,
    read_manifest,
    read_manifest_list,
)
from holdfast.formats.iceberg.metadata.paths import Paths
from holdfast.formats.iceberg.metadata.table_metadata import SnapshotEntry
from holdfast.model.files import FileTable, Slab
from holdfast.storage.error_mapping import parsing
from holdfast.storage.prefetch import each


@dataclass(frozen=True)
class SnapshotContents:
    """The manifests of a snapshot and their entries."""

    paths: Paths
    entry: SnapshotEntry | None
    types: ManifestTypes
    where: str
    read: dict[str, ManifestEntries] = field(default_factory=dict, repr=False)  # by path; grows as manifests are read
    chosen: tuple[ManifestFile, ...] | None = field(default=None, repr=False)  # None: all of the snapshot's

    @cached_property
    def manifests(self) -> tuple[ManifestFile, ...]:
        if self.chosen is not None:
            return self.chosen
        return () if self.entry is None else manifest_files(self.entry, self.records)

    @cached_property
    def records(self) -> pa.StructArray | None:
        """The records of the manifest list; None where there is none."""
        return None if self.entry is None else read_manifest_list(self.paths, self.entry)

    def only(self, manifests: Iterable[ManifestFile]) -> SnapshotContents:
        """The same with some of the manifests."""
        return replace(self, chosen=tuple(manifests))

    @property
    def is_read(self) -> bool:
        """Whether every manifest has been read."""
        return "listed" in self.__dict__

    @cached_property
    def listed(self) -> tuple[ManifestEntries, ...]:
        """The live entries of every manifest, in the order of the manifest list."""
        new = [m for m in self.manifests if m.path not in self.read or self.read[m.path].manifest != m]
        for entries in each(self.paths.location.store, partial(read_manifest, self.paths), new):
            self.read[entries.manifest.path] = entries
        return tuple(self.read[m.path] for m in self.manifests)

    @cached_property
    def slabs(self) -> tuple[Slab, ...]:
        return self._files[0].slabs

    @cached_property
    def deletes(self) -> DeleteFiles:
        return self._files[1]

    @cached_property
    def _files(self) -> tuple[FileTable, DeleteFiles]:
        at = None if self.entry is None else self.entry.snapshot_id
        with parsing(self.where, "has manifests that make no table", remedy="read an earlier snapshot"):
            return build_file_table(self.paths, self.listed, self.types, at=at, where=self.where)


class LazyFiles(FileTable):
    """The data files of a snapshot, read on first use."""

    def __init__(self, contents: SnapshotContents) -> None:
        object.__setattr__(self, "contents", contents)

    contents: SnapshotContents

    @cached_property
    def slabs(self) -> tuple[Slab, ...]:
        return self.contents.slabs
