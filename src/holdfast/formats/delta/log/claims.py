"""What a log states about itself elsewhere, against the state that its files lead to.

The checksum file of a version counts its files, and `_last_checkpoint` counts those of a checkpoint. Both are written
by who knew the state; a checkpoint that lost files says nothing of it.

1. What a checksum counts otherwise makes the files that were read damaged: compacted files first, then the checkpoint.
   Plain commits from the first one on are what a checksum is made from, so there it is the checksum that is wrong. So
   it is where the checksum of the checkpoint's own version agrees with the checkpoint.
2. What only the hint counts otherwise, or what a checksum says of settings, is a doubt: another way is preferred, and
   where there is none the state is taken as it is.
3. A sound log costs one checksum file: that of the version, or else that of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.compute as pc

from holdfast.formats.delta.checkpoint.checksum import Counts, Hint, VersionChecksum, contradictions, miscounts
from holdfast.formats.delta.checkpoint.reader import CheckpointContents
from holdfast.formats.delta.log.file_names import LAST_CHECKPOINT, CompactedLog, checksum_name, parse_log_name
from holdfast.formats.delta.log.listing import checksum_of, log_url
from holdfast.formats.delta.log.segment import Checkpoint, LogListing, LogSegment
from holdfast.formats.delta.log.settings import CompleteSettings
from holdfast.formats.delta.protocol.features import reader_features, writer_features
from holdfast.model.files import FileTable
from holdfast.storage.base import ObjectMeta
from holdfast.storage.location import Location


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something the log states otherwise than the state that was read."""

    stated: str  # where, and what
    suspects: tuple[ObjectMeta, ...]  # the files to read around; none where the statement itself is what is wrong
    refuses: bool  # whether the state cannot be taken where there is no way around them


@dataclass(frozen=True, slots=True)
class Claims:
    """What a log states about one version, as far as it was read."""

    location: Location
    listing: LogListing
    hint: Hint | None
    of: int | None  # the version whose checksum was read, where there was one to read
    checksum: VersionChecksum | None

    def doubt(
        self, segment: LogSegment, contents: CheckpointContents | None, settings: CompleteSettings, files: FileTable
    ) -> Doubt | None:
        """What is stated otherwise than the state that a segment led to; `contents` are those of its checkpoint."""
        checkpoint = segment.checkpoint
        if self.checksum is not None and self.of == segment.version:
            doubt = self._of_version(self.checksum, segment, contents, settings, files)
        elif contents is None or checkpoint is None:
            return None
        elif self.checksum is not None and self.of == checkpoint.version:
            doubt = self._of_checkpoint(self.checksum, checkpoint, contents)
        else:
            doubt = self._of_hint(checkpoint, contents)
        if doubt is None and checkpoint is not None and contents is not None:
            return self._of_columns(checkpoint, contents, settings)
        return doubt

    def _of_version(
        self,
        checksum: VersionChecksum,
        segment: LogSegment,
        contents: CheckpointContents | None,
        settings: CompleteSettings,
        files: FileTable,
    ) -> Doubt | None:
        counted = list(miscounts(checksum, count(files)))
        stated = [*counted, *contradictions(checksum, settings)]
        if not stated:
            return None
        suspects = tuple(meta for meta in segment.deltas if isinstance(parse_log_name(meta.name), CompactedLog))
        if not suspects and segment.checkpoint is not None and contents is not None:
            older = segment.checkpoint.version < segment.version
            own = checksum_of(self.location, self.listing, segment.checkpoint.version) if older else None
            if own is None or self._of_checkpoint(own, segment.checkpoint, contents) is not None:
                suspects = segment.checkpoint.files
        return Doubt(self._checksum_says(segment.version, stated), suspects, refuses=bool(counted))

    def _of_checkpoint(
        self, checksum: VersionChecksum, checkpoint: Checkpoint, contents: CheckpointContents
    ) -> Doubt | None:
        settings = contents.settings
        counted = list(miscounts(checksum, count(FileTable(contents.slabs))))
        stated = list(counted)
        if settings.protocol is not None and settings.metadata is not None:
            known = CompleteSettings(settings.protocol, settings.metadata, settings.txns, settings.domains)
            stated += contradictions(checksum, known)
        if not stated:
            return None
        return Doubt(self._checksum_says(checkpoint.version, stated), checkpoint.files, refuses=bool(counted))

    def _of_hint(self, checkpoint: Checkpoint, contents: CheckpointContents) -> Doubt | None:
        for otherwise in hinted_otherwise(self.hint, checkpoint, contents):
            stated = f"{log_url(self.location)}/{LAST_CHECKPOINT} says {otherwise} in {checkpoint.name}"
            return Doubt(stated, checkpoint.files, refuses=False)
        return None

    def _of_columns(
        self, checkpoint: Checkpoint, contents: CheckpointContents, settings: CompleteSettings
    ) -> Doubt | None:
        for field in _unsayable(contents, settings):
            stated = f"the checkpoint {checkpoint.name} of {self.location.url} has no column add.{field}"
            return Doubt(stated, checkpoint.files, refuses=False)
        return None

    def _checksum_says(self, version: int, stated: list[str]) -> str:
        return f"{log_url(self.location)}/{checksum_name(version)} says {' and '.join(stated)}"


def claims_of(location: Location, listing: LogListing, hint: Hint | None, segment: LogSegment) -> Claims:
    """What the log states about the version of a segment."""
    checkpoint = None if segment.checkpoint is None else segment.checkpoint.version
    of = next((v for v in (segment.version, checkpoint) if v in listing.checksums), None)
    return Claims(location, listing, hint, of, None if of is None else checksum_of(location, listing, of))


def count(files: FileTable) -> Counts:
    """What a checksum counts of these files."""
    sizes, hidden = files.column("size"), pc.struct_field(files.column("dv"), "cardinality")
    return Counts(len(sizes), pc.sum(sizes).as_py() or 0, len(hidden) - hidden.null_count, pc.sum(hidden).as_py() or 0)


def hinted_otherwise(hint: Hint | None, checkpoint: Checkpoint, contents: CheckpointContents) -> Iterator[str]:
    """What the hint counts otherwise, where it is this checkpoint that it speaks of."""
    if hint is None or hint.version != checkpoint.version or (hint.parts or 1) != len(checkpoint.files):
        return
    named = None if hint.v2_checkpoint is None else hint.v2_checkpoint.path
    if (checkpoint.unique or named is not None) and named != checkpoint.files[0].name:
        return
    survey = contents.survey
    if hint.num_of_add_files not in (None, survey.adds):
        yield f"{hint.num_of_add_files} files where there are {survey.adds}"
    # Some writers count fewer kinds of actions, or bytes.
    if hint.size is not None and hint.size > survey.actions and hint.size != survey.size_bytes:
        yield f"{hint.size} actions where there are {survey.actions}"


def _unsayable(contents: CheckpointContents, settings: CompleteSettings) -> Iterator[str]:
    """What the live files of a table have, and the files of its checkpoint have no column for."""
    if contents.survey.adds == 0:
        return
    if "deletionVectors" in reader_features(settings.protocol) and "deletionVector" not in contents.add_fields:
        yield "deletionVector"
    if "rowTracking" in writer_features(settings.protocol) and "baseRowId" not in contents.add_fields:
        yield "baseRowId"
