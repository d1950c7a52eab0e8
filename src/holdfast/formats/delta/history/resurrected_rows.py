"""Decides from the log whether deleted rows may have come back between two versions.

Rows come back where a commit adds a file that is older than the commit, either one that the table no longer had, or
one with a deletion vector that hides fewer rows than before. Deletes add such files too, with more hidden rows; only
the operation tells them apart.

1. None means that the log has every commit of the range, row tracking stayed enabled, and hidden rows stayed hidden.
2. Otherwise the result is the reason why this is not certain.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.formats.delta.log.actions import FileAction, Line, commit_info
from holdfast.formats.delta.log.file_names import first_name
from holdfast.formats.delta.log.listing import list_log, read_commits
from holdfast.formats.delta.state import DeltaState
from holdfast.schema.properties import ENABLE_ROW_TRACKING, ROW_TRACKING_SUSPENDED, truth

_ONLY_HIDE = frozenset({"DELETE", "UPDATE", "MERGE", "STREAMING UPDATE", "OPTIMIZE", "WRITE"})
_OURS = "Holdfast/"
_RESTORE = "RESTORE"


def came_back(after: DeltaState, version: int, *, checked: int | None = None) -> str | None:
    """Why rows may have come back after a version and up to a state; None where none did.

    `checked` is a version up to which an earlier call found none.
    """
    start = max(version, version if checked is None else checked) + 1
    if start > after.version:
        return None
    location = after.snapshot.location
    listing = list_log(location, start=first_name(start))
    versions = range(start, after.version + 1)
    missing = next((v for v in versions if v not in listing.commits), None)
    if missing is not None:
        return f"the log no longer has the commit of version {missing}"
    reasons = (_brings_back(v, lines) for v, lines in read_commits(location, listing, versions))
    return next((reason for reason in reasons if reason), None)


def _brings_back(version: int, lines: Sequence[Line]) -> str | None:
    for line in lines:
        if line.meta_data is not None:
            properties = line.meta_data.properties
            if not truth(properties.get(ENABLE_ROW_TRACKING)) or truth(properties.get(ROW_TRACKING_SUSPENDED)):
                return f"rows were not tracked at version {version}"
    readded = [add for line in lines if (add := line.add) is not None and add.default_row_commit_version != version]
    if not readded:
        return None
    info = commit_info(lines)
    operation = str(info.get("operation"))
    only_hides = operation in _ONLY_HIDE or (
        str(info.get("engineInfo", "")).startswith(_OURS) and operation != _RESTORE
    )
    removed = {line.remove.path: line.remove for line in lines if line.remove is not None}
    for add in readded:
        if add.default_row_commit_version is None:
            return f"version {version} added files without row ids"
        if not (only_hides and add.path in removed and _count(add) >= _count(removed[add.path])):
            return f"version {version}, a {operation}, may have brought rows back"
    return None


def _count(action: FileAction) -> int:
    return 0 if action.deletion_vector is None else action.deletion_vector.cardinality
