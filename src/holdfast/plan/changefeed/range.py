"""Whether a stretch of commits can be told as changes of rows, and the version to name where it cannot. Pure.

A row can be followed through a commit that moves it only if the commit carries its id. A commit that adds new files and
takes rows out of old ones may have moved rows; one that only adds, only takes out, puts new rows in the place of old
ones, or brings back old files has not.

1. Every refusal names the first version in the way, and what to ask for instead.
2. Rows of every commit of the stretch can be read as rows of its last schema, or the stretch is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa

from holdfast.errors import Invalid, NoRowIdentity
from holdfast.model.commits import CommitFacts, CommitRange, Described
from holdfast.schema.casts import widens
from holdfast.schema.properties import ENABLE_ROW_TRACKING
from holdfast.schema.types import Array, DataType, Field, Map, Struct

_BRINGS_NEW_ROWS = frozenset(
    {
        "WRITE",
        "STREAMING UPDATE",
        "TRUNCATE",
        "CLONE",
        "RESTORE",
        "CREATE TABLE AS SELECT",
        "REPLACE TABLE",
        "REPLACE TABLE AS SELECT",
        "CREATE OR REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
    }
)


def blurred(stretch: CommitRange) -> Iterator[CommitFacts]:
    """Commits that may have moved rows without carrying their ids."""
    added, removed = _keys(stretch.added), _keys(stretch.removed)
    for commit in stretch.commits:
        if commit.keeps_ids or (commit.operation in _BRINGS_NEW_ROWS and not commit.copied_rows):
            continue
        if commit.version in removed and added[commit.version] - removed[commit.version]:
            yield commit


def refuse_blurred(stretch: CommitRange, commits: Iterator[CommitFacts]) -> None:
    """Say why rows cannot be followed through a commit, and what would help."""
    commit = next(commits, None)
    if commit is None:
        return
    what = f"version {commit.version} ({commit.operation}) may have moved rows without keeping their ids"
    if _tracked(stretch, commit.version):
        what += f", although {ENABLE_ROW_TRACKING} was on: its writer did not say that it kept them"
        help_ = "the changes before it and after it can be asked for"
    else:
        what += ": the table did not track rows then"
        help_ = "enableRowTracking() makes later changes exact"
    raise NoRowIdentity(
        f"the changes from version {stretch.start} to {stretch.end} of {stretch.after.location.url} cannot be told by "
        f"row id: {what}. Name the columns that identify a row with keys=[...], or leave that version out; {help_}"
    )


def refuse_unreadable(stretch: CommitRange) -> None:
    """Refuse rows that cannot be read under the last schema."""
    after = stretch.after
    last = Described(after.schema, after.partition_columns, after.identity is not None, False)
    steps: list[tuple[int, Described]] = [(stretch.start, stretch.first)]
    if stretch.before is not None:
        old = stretch.before
        steps.insert(0, (old.version, Described(old.schema, old.partition_columns, old.identity is not None, False)))
    steps += [(c.version, c.described) for c in stretch.commits[1:] if c.described is not None]
    trouble = [(n, found) for n, (_, was) in enumerate(steps) if (found := _trouble(was, last)) is not None]
    if not trouble:
        return
    at, found = trouble[-1]
    version = steps[at + 1][0]
    raise Invalid(
        f"version {version} of {after.location.url} changed its schema so that older rows cannot be read under the "
        f"schema of version {stretch.end}: {found}; ask for the changes up to version {version - 1} and from "
        f"version {version + 1} on"
    )


def _keys(actions: pa.Table) -> defaultdict[int, set[str]]:
    """The keys of the files each commit speaks of."""
    found = defaultdict[int, set[str]](set)
    for key, version in zip(actions.column("key").to_pylist(), actions.column("version").to_pylist(), strict=True):
        found[version].add(key)
    return found


def _tracked(stretch: CommitRange, version: int) -> bool:
    known = stretch.first
    for commit in stretch.commits:
        if commit.version <= version and commit.described is not None:
            known = commit.described
    return known.tracks_rows


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
    found = described.schema.find(name)
    return name if found is None else found.physical_name


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
