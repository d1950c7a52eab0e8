"""Checks that the changes of a commit range can be computed exactly. Pure.

A row can be followed through a commit that moves it only if the commit carries its id. A commit that adds new files and
removes rows from old ones may have moved rows. A commit that only adds, only removes, replaces rows by new ones or
restores old files has moved none.

1. Every error names the first version that prevents an answer, and what to ask for instead.
2. A range whose rows cannot all be read under its last schema is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

import pyarrow as pa

from holdfast.errors import Invalid, NoRowIdentity
from holdfast.model.commits import CommitFacts, CommitRange, Described
from holdfast.schema.casts import widens
from holdfast.schema.properties import ENABLE_ROW_TRACKING
from holdfast.schema.types import Array, DataType, Field, Map, Struct

_BRINGS_NEW_ROWS = frozenset(
    ("WRITE", "STREAMING UPDATE", "TRUNCATE", "CLONE", "RESTORE", "CREATE TABLE AS SELECT", "REPLACE TABLE",
     "REPLACE TABLE AS SELECT", "CREATE OR REPLACE TABLE", "CREATE OR REPLACE TABLE AS SELECT")
)  # fmt: skip


def check_range(commit_range: CommitRange, *, by_id: bool, recorded: Collection[int] = frozenset()) -> frozenset[int]:
    """Refuse a range whose changes cannot be computed exactly.

    By row id, a commit that may have moved rows without their ids is refused unless its version is in `recorded`, the
    versions with change data files. Returns the versions whose change data files have to be used for that reason.
    """
    refuse_unreadable(commit_range)
    untraceable = list(_untraceable(commit_range)) if by_id else []
    for commit in untraceable:
        if commit.version not in recorded:
            raise _no_identity(commit_range, commit)
    return frozenset(commit.version for commit in untraceable)


def refuse_unreadable(commit_range: CommitRange) -> None:
    """Refuse a range with rows that cannot be read under its last schema."""
    after = commit_range.after
    last = Described(after.schema, after.partition_columns, after.identity is not None, False)
    steps: list[tuple[int, Described]] = [(commit_range.start, commit_range.first)]
    if commit_range.before is not None:
        old = commit_range.before
        steps.insert(0, (old.version, Described(old.schema, old.partition_columns, old.identity is not None, False)))
    steps += [(c.version, c.described) for c in commit_range.commits[1:] if c.described is not None]
    trouble = [(n, reason) for n, (_, was) in enumerate(steps) if (reason := _trouble(was, last)) is not None]
    if not trouble:
        return
    at, reason = trouble[-1]
    version = steps[at + 1][0]
    raise Invalid(
        f"version {version} of {after.location.url} changed its schema so that older rows cannot be read under the "
        f"schema of version {commit_range.end}: {reason}; ask for the changes up to version {version - 1} and from "
        f"version {version + 1} on"
    )


def _untraceable(commit_range: CommitRange) -> Iterator[CommitFacts]:
    """Commits that may have moved rows without carrying their ids."""
    added, removed = _keys(commit_range.added), _keys(commit_range.removed)
    for commit in commit_range.commits:
        if commit.keeps_ids or (commit.operation in _BRINGS_NEW_ROWS and not commit.copied_rows):
            continue
        if commit.version in removed and added[commit.version] - removed[commit.version]:
            yield commit


def _no_identity(commit_range: CommitRange, commit: CommitFacts) -> NoRowIdentity:
    what = f"version {commit.version} ({commit.operation}) may have moved rows without keeping their ids"
    if _tracked(commit_range, commit.version):
        what += f", although {ENABLE_ROW_TRACKING} was on: its writer did not say that it kept them"
        help_ = "the changes before it and after it can be asked for"
    else:
        what += ": the table did not track rows then"
        help_ = "enableRowTracking() makes later changes exact"
    return NoRowIdentity(
        f"the changes from version {commit_range.start} to {commit_range.end} of {commit_range.after.location.url} "
        f"cannot be told by row id: {what}. Name the columns that identify a row with keys=[...], or leave that "
        f"version out; {help_}"
    )


def _keys(actions: pa.Table) -> defaultdict[int, set[str]]:
    """The keys of the files that each commit names, by version."""
    keys = defaultdict[int, set[str]](set)
    for key, version in zip(actions.column("key").to_pylist(), actions.column("version").to_pylist(), strict=True):
        keys[version].add(key)
    return keys


def _tracked(commit_range: CommitRange, version: int) -> bool:
    description = commit_range.first
    for commit in commit_range.commits:
        if commit.version <= version and commit.described is not None:
            description = commit.described
    return description.tracks_rows


def _trouble(old: Described, new: Described) -> str | None:
    """Why rows written under one schema cannot be read under another; None where they can."""
    before = {f.physical_name: f for f in old.schema.fields}
    unmapped = [f for f in old.schema.fields if f.physical_name != f.name and _is_plain(new.schema.find(f.name))]
    if unmapped:
        return f"the column {unmapped[0].name} lost its column mapping"
    parts = [_physical(old, name) for name in old.partition_columns]
    if parts != [_physical(new, name) for name in new.partition_columns] and old.schema.fields:
        return "it is partitioned by other columns"
    for f in new.schema.fields:
        if (was := before.get(f.physical_name)) is not None and not _reads(was.type, f.type):
            return f"the column {f.name} became another type"
    return None


def _is_plain(f: Field | None) -> bool:
    return f is not None and f.physical_name == f.name


def _physical(described: Described, name: str) -> str:
    field = described.schema.find(name)
    return name if field is None else field.physical_name


def _reads(old: DataType, new: DataType) -> bool:
    """Whether values of one type are read as the other."""
    match old, new:
        case (Struct(), Struct()):
            before = {f.physical_name: f for f in old.fields}
            return all(
                f.physical_name not in before or _reads(before[f.physical_name].type, f.type) for f in new.fields
            )
        case (Array(a, _), Array(b, _)):
            return _reads(a, b)
        case (Map(k, v, _), Map(l, w, _)):
            return _reads(k, l) and _reads(v, w)
        case _:
            return old == new or widens(old, new) or getattr(old, "name", None) == "void"
