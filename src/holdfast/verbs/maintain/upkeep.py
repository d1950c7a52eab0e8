"""What a table tells of itself, and what is made of it as a whole: checks, biographies, manifests, clones."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Mapping
from typing import Self

from holdfast.formats.delta.state import DeltaState, load
from holdfast.plan.changefeed.biography import Biography
from holdfast.verbs.changefeed import biography
from holdfast.verbs.define.clone import CloneOptions, clone, target_of
from holdfast.verbs.maintain import check as checking
from holdfast.verbs.maintain.check import CheckReport
from holdfast.verbs.maintain.symlink_manifests import generate
from holdfast.verbs.open.delta_handle import DeltaHandle
from holdfast.verbs.open.handle import TableBase
from holdfast.verbs.open.moment import moment_ms


class UpkeepVerbs(TableBase):
    """Verbs that look at a table, or copy it, without changing a row."""

    handle: DeltaHandle

    @abstractmethod
    def _beside(self, state: DeltaState) -> Self:
        """Another table, opened as this one is."""

    def check(self, *, repair: bool = False, deep: bool = True, dropMissing: bool = False) -> CheckReport:
        """Check the log, the files and every row id; printing the report shows what was found.

        `deep` reads footers and columns of row ids, and nothing else of the data. `repair` does what is safe: it never
        touches a data file. `dropMissing` lets it take files that are not there any more out of the table.
        """
        return checking.check(self.handle.newest(), self._caller(), repair=repair, deep=deep, drop_missing=dropMissing)

    def biography(self, rowId: int) -> Biography:
        """What happened to a row: born, changed, moved, deleted, restored, purged; printing it shows a timeline.

        Reads the log, and of data files only those the row may have been in, ids and versions alone.
        """
        return biography.biography(self.handle.newest(), rowId)

    def generate(self, mode: str) -> None:
        """Write manifests of the newest version, as in delta-spark: `generate("symlink_format_manifest")`."""
        generate(self.handle.newest(), mode)

    def clone(
        self,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Make a table at `target` that begins with the rows of this one, as in delta-spark.

        A shallow clone refers to this table's files where they are; any other has copies of its own. Rows of a clone
        are new rows, with ids of their own. `replace` puts it in the place of a table that is there: of an earlier
        clone only what differs. `storage_options` say how to reach the target, where that is not as this table is.
        """
        return self._cloned(
            self.handle.newest(), target, CloneOptions(isShallow, replace, properties or {}), storage_options
        )

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Make a table that begins with the rows of a version of this one."""
        then = load(self.handle.newest().snapshot.location, version=version)
        return self._cloned(then, target, CloneOptions(isShallow, replace, properties or {}), storage_options)

    def cloneAtTimestamp(
        self,
        timestamp: str | datetime.datetime,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Make a table that begins with the rows this one had at a time."""
        moment = moment_ms(timestamp, zone=self._caller().zone)
        then = load(self.handle.newest().snapshot.location, timestamp_ms=moment)
        return self._cloned(then, target, CloneOptions(isShallow, replace, properties or {}), storage_options)

    def _cloned(
        self, source: DeltaState, target: str, asked: CloneOptions, storage_options: Mapping[str, str] | None
    ) -> Self:
        place = target_of(target, source.snapshot.location, storage_options)
        return self._beside(clone(source, place, asked, self._caller().env))
