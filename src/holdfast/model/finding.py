"""What a check of a table reports: one value per problem.

1. A finding names where it is (a file, a version, or both) and says in one sentence what is wrong there.
2. `repair` says what a repair would do about it; None: nothing safe can be done.
3. Of one kind at most LISTED are listed one by one; the last of them counts the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice

LISTED = 100


class FindingKind(Enum):
    """What can be found."""

    DUPLICATE_IDS = "rows share a row id"
    REUSED_IDS = "row ids were handed out twice"
    MARK_BELOW_DATA = "the mark of row ids is below ids in use"
    NO_ROW_IDS = "a file has no row ids"
    DOUBLE_ADD = "a file is in the table twice"
    REMOVE_MISSED = "a removal missed its file"
    MISSING_VECTOR = "a deletion vector is missing"
    BAD_VECTOR = "a deletion vector is wrong"
    MISSING_FILE = "a data file is missing"
    BAD_FILE = "a data file cannot be read"
    WRONG_SIZE = "a data file has another size"
    WRONG_COUNT = "a row count is wrong"
    WRONG_PARTITION = "a partition value is not that of the file"
    MISSING_COMMIT = "a commit is missing"
    BAD_COMMIT = "a commit cannot be read"
    BAD_CHECKPOINT = "a checkpoint cannot be read"
    WRONG_CHECKPOINT = "a checkpoint contradicts the commits"
    WRONG_COMPACTION = "a compaction of the log contradicts its commits"
    BAD_HINT = "the hint to the last checkpoint is wrong"
    BAD_CHECKSUM = "a version checksum is wrong"
    NO_CHECKSUM = "the version has no checksum"
    LOST_CLUSTERING = "a clustering column is gone"
    ORPHANS = "files nobody refers to"
    MISSING_DELETES = "a delete file is missing"
    IDLE_DELETES = "delete files that apply to nothing"
    BLIND_DELETES = "a delete file lacks the columns it compares"
    WRONG_SUMMARY = "a summary does not add up"
    LOST_FILES = "a list has fewer files than its snapshot says"

    @property
    def is_harmless(self) -> bool:
        """Whether it is only worth knowing: a table with nothing else is sound."""
        return self in (
            FindingKind.NO_CHECKSUM,
            FindingKind.ORPHANS,
            FindingKind.IDLE_DELETES,
            FindingKind.BLIND_DELETES,
            FindingKind.WRONG_SUMMARY,
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found."""

    kind: FindingKind
    what: str
    file: str | None = None
    version: int | None = None
    repair: str | None = None
    count: int = 1  # of such things, where not all are listed

    @property
    def repairable(self) -> bool:
        """Whether a repair does something about it."""
        return self.repair is not None

    def __str__(self) -> str:
        return f"{self.what}{f' [repair: {self.repair}]' if self.repair else ''}"


def listed(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings of one kind, the last one standing for all beyond the limit."""
    rest = iter(findings)
    shown = list(islice(rest, LISTED))
    more = sum(1 for _ in rest)
    if more:
        last = shown[-1]
        shown[-1] = replace(last, what=f"{last.what}, and {more} more such", count=more + 1)
    return tuple(shown)
