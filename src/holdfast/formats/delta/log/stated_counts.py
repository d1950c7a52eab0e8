"""Checks the counts that the log states (checksum file, `_last_checkpoint`) against the replayed state.

A checkpoint that lost files does not show it. The checksum file counts the files of a version, and `_last_checkpoint`
those of a checkpoint, so a mismatch reveals the loss.

1. Where the counts of a checksum file differ, the files that were read are damaged: compacted files first, then the
   checkpoint. A state replayed from plain commits alone is right and the checksum file is wrong. So it is where the
   checksum file of the checkpoint's own version agrees with the checkpoint.
2. A mismatch with the hint alone, or with the settings in a checksum file, is not fatal: another segment is preferred,
   and where there is none the state is used as it is.
3. Checking an intact log reads one checksum file: that of the version, or else that of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.compute as pc

from holdfast.formats.delta.checkpoint.checksum import Counts, VersionChecksum, contradictions, miscounts
from holdfast.formats.delta.checkpoint.last_checkpoint import Hint
from holdfast.formats.delta.checkpoint.reader import CheckpointContents
from holdfast.formats.delta.log.file_names import LAST_CHECKPOINT, CompactedLog, checksum_name, parse_log_name
from holdfast.formats.delta.log.listing import checksum_of, log_url
from holdfast.formats.delta.log.segment import Checkpoint, LogListing, LogSegment
from holdfast.formats.delta.log.settings import CompleteSettings, complete
from holdfast.formats.delta.protocol.features import reader_features, writer_features
from holdfast.model.files import FileTable
from holdfast.storage.base import ObjectMeta
from holdfast.storage.location import Location


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference between what the log states and the replayed state."""

    statement: str  # the file that states it, and the difference
    suspects: tuple[ObjectMeta, ...]  # the files to avoid; none where the statement itself is wrong
    is_fatal: bool  # whether the state may not be used even where no other segment is left


@dataclass(frozen=True, slots=True)
class StatedCounts:
    """The checksum file and the hint that state counts of one version."""

    location: Location
    listing: LogListing
    hint: Hint | None
    checksum_version: int | None  # None where there is no checksum file
    checksum: VersionChecksum | None

    def mismatch(
        self, segment: LogSegment, contents: CheckpointContents | None, settings: CompleteSettings, files: FileTable
    ) -> Mismatch | None:
        """The first mismatch with the state replayed from a segment; `contents` are those of its checkpoint."""
        checkpoint = segment.checkpoint
        if self.checksum is not None and self.checksum_version == segment.version:
            mismatch = self._with_version(self.checksum, segment, contents, settings, files)
        elif contents is None or checkpoint is None:
            return None
        elif self.checksum is not None and self.checksum_version == checkpoint.version:
            mismatch = self._with_checkpoint(self.checksum, checkpoint, contents)
        else:
            mismatch = self._with_hint(checkpoint, contents)
        if mismatch is None and checkpoint is not None and contents is not None:
            return self._with_columns(checkpoint, contents, settings)
        return mismatch

    def _with_version(
        self,
        checksum: VersionChecksum,
        segment: LogSegment,
        contents: CheckpointContents | None,
        settings: CompleteSettings,
        files: FileTable,
    ) -> Mismatch | None:
        wrong_counts = list(miscounts(checksum, count(files)))
        differences = [*wrong_counts, *contradictions(checksum, settings)]
        if not differences:
            return None
        suspects = tuple(meta for meta in segment.deltas if isinstance(parse_log_name(meta.name), CompactedLog))
        if not suspects and segment.checkpoint is not None and contents is not None:
            older = segment.checkpoint.version < segment.version
            own = checksum_of(self.location, self.listing, segment.checkpoint.version) if older else None
            if own is None or self._with_checkpoint(own, segment.checkpoint, contents) is not None:
                suspects = segment.checkpoint.files
        return Mismatch(self._checksum_says(segment.version, differences), suspects, is_fatal=bool(wrong_counts))

    def _with_checkpoint(
        self, checksum: VersionChecksum, checkpoint: Checkpoint, contents: CheckpointContents
    ) -> Mismatch | None:
        wrong_counts = list(miscounts(checksum, count(FileTable(contents.slabs))))
        differences = list(wrong_counts)
        if contents.settings.is_complete:
            differences += contradictions(checksum, complete(contents.settings))
        if not differences:
            return None
        return Mismatch(self._checksum_says(checkpoint.version, differences), checkpoint.files, bool(wrong_counts))

    def _with_hint(self, checkpoint: Checkpoint, contents: CheckpointContents) -> Mismatch | None:
        difference = next(hint_miscounts(self.hint, checkpoint, contents), None)
        if difference is None:
            return None
        statement = f"{log_url(self.location)}/{LAST_CHECKPOINT} says {difference} in {checkpoint.name}"
        return Mismatch(statement, checkpoint.files, is_fatal=False)

    def _with_columns(
        self, checkpoint: Checkpoint, contents: CheckpointContents, settings: CompleteSettings
    ) -> Mismatch | None:
        field = next(_missing_columns(contents, settings), None)
        if field is None:
            return None
        statement = f"the checkpoint {checkpoint.name} of {self.location.url} has no column add.{field}"
        return Mismatch(statement, checkpoint.files, is_fatal=False)

    def _checksum_says(self, version: int, differences: list[str]) -> str:
        return f"{log_url(self.location)}/{checksum_name(version)} says {' and '.join(differences)}"


def read_stated_counts(location: Location, listing: LogListing, hint: Hint | None, segment: LogSegment) -> StatedCounts:
    """Reads the checksum file of a segment's version, or else that of its checkpoint."""
    checkpoint = None if segment.checkpoint is None else segment.checkpoint.version
    version = next((v for v in (segment.version, checkpoint) if v in listing.checksums), None)
    checksum = None if version is None else checksum_of(location, listing, version)
    return StatedCounts(location, listing, hint, version, checksum)


def count(files: FileTable) -> Counts:
    """The counts of these files that a checksum file states."""
    sizes, hidden = files.column("size"), pc.struct_field(files.column("dv"), "cardinality")
    return Counts(len(sizes), pc.sum(sizes).as_py() or 0, len(hidden) - hidden.null_count, pc.sum(hidden).as_py() or 0)


def hint_miscounts(hint: Hint | None, checkpoint: Checkpoint, contents: CheckpointContents) -> Iterator[str]:
    """Counts of the hint that differ from the checkpoint, where the hint points to this checkpoint."""
    if hint is None or hint.version != checkpoint.version or (hint.parts or 1) != len(checkpoint.files):
        return
    hinted_name = None if hint.v2_checkpoint is None else hint.v2_checkpoint.path
    if (checkpoint.unique or hinted_name is not None) and hinted_name != checkpoint.files[0].name:
        return
    survey = contents.survey
    if hint.num_of_add_files not in (None, survey.adds):
        yield f"{hint.num_of_add_files} files where there are {survey.adds}"
    # Some writers count fewer kinds of actions, or bytes.
    if hint.size is not None and hint.size > survey.actions and hint.size != survey.size_bytes:
        yield f"{hint.size} actions where there are {survey.actions}"


def _missing_columns(contents: CheckpointContents, settings: CompleteSettings) -> Iterator[str]:
    """Fields of `add` that the table's features require and its checkpoint has no column for."""
    if contents.survey.adds == 0:
        return
    if "deletionVectors" in reader_features(settings.protocol) and "deletionVector" not in contents.add_fields:
        yield "deletionVector"
    if "rowTracking" in writer_features(settings.protocol) and "baseRowId" not in contents.add_fields:
        yield "baseRowId"
