"""Whether rows that were gone came back between two versions of a table, as its log tells.

A row comes back where a file is added that is older than its commit: whole, or with a vector that hides less than the
one before. Deletes do the latter's opposite and look the same in a log but for what they are called.

1. None means: every commit in between is known, rows stayed tracked, and whatever was hidden stayed so.
2. Anything else is the reason why that cannot be said; where the log is silent, it cannot.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.formats.delta.log.actions import FileAction, Line, commit_info
from holdfast.formats.delta.log.file_names import first_name
from holdfast.formats.delta.log.listing import list_log, read_lines
from holdfast.formats.delta.state import DeltaState
from holdfast.schema.properties import ENABLE_ROW_TRACKING, ROW_TRACKING_SUSPENDED, truth

_ONLY_HIDE = frozenset({"DELETE", "UPDATE", "MERGE", "STREAMING UPDATE", "OPTIMIZE", "WRITE"})
_OURS = "Holdfast/"
_RESTORE = "RESTORE"


def came_back(after: DeltaState, version: int, *, known: int | None = None) -> str | None:
    """Why rows may have come back after a version and up to a state; None where none did.

    `known`: a version up to which none did, as was found before.
    """
    start = max(version, version if known is None else known) + 1
    if start > after.version:
        return None
    location = after.snapshot.location
    commits = list_log(location, start=first_name(start)).commits
    for at in range(start, after.version + 1):
        if at not in commits:
            return f"the log no longer has the commit of version {at}"
    lines_of = read_lines(location, [commits[at] for at in range(start, after.version + 1)])
    for at, lines in zip(range(start, after.version + 1), lines_of, strict=True):
        if why := _brings_back(at, lines):
            return why
    return None


def _brings_back(version: int, lines: Sequence[Line]) -> str | None:
    for line in lines:
        if line.meta_data is not None:
            told = line.meta_data.properties
            if not truth(told.get(ENABLE_ROW_TRACKING)) or truth(told.get(ROW_TRACKING_SUSPENDED)):
                return f"rows were not tracked at version {version}"
    again = [add for line in lines if (add := line.add) is not None and add.default_row_commit_version != version]
    if not again:
        return None
    info = commit_info(lines)
    operation = str(info.get("operation"))
    hides = operation in _ONLY_HIDE or (str(info.get("engineInfo", "")).startswith(_OURS) and operation != _RESTORE)
    removed = {line.remove.path: line.remove for line in lines if line.remove is not None}
    for add in again:
        if add.default_row_commit_version is None:
            return f"version {version} added files without row ids"
        if not (hides and add.path in removed and _count(add) >= _count(removed[add.path])):
            return f"version {version}, a {operation}, may have brought rows back"
    return None


def _count(action: FileAction) -> int:
    return 0 if action.deletion_vector is None else action.deletion_vector.cardinality
