"""Writes log compactions: one file with the reconciled actions of a commit range.

1. The file has the newest action of each logical file, application and domain, and the newest protocol and metaData,
   each with the bytes of its commit.
2. Removals of files and domains are kept: they cancel actions before the commit range.
3. commitInfo and cdc stay in the commits, which are not changed.
4. A commit range with a missing commit is refused.
"""

from __future__ import annotations

from holdfast.errors import Invalid, UnknownVersion
from holdfast.formats.delta.log.actions import Line, decode_lines
from holdfast.formats.delta.log.columns import dv_ids_of, file_keys, logical_ids
from holdfast.formats.delta.log.file_names import LOG, commit_name, compacted_name, first_name
from holdfast.formats.delta.log.listing import list_log, log_url, read_bytes
from holdfast.storage.location import Location


def write_log_compaction(location: Location, first: int, last: int) -> str:
    """Writes the compaction of the versions `first` to `last` unless it exists; returns its name."""
    if not 0 <= first < last:
        raise Invalid(f"a log compaction goes from one version to a later one, not from {first} to {last}")
    commits = list_log(location, start=first_name(first)).commits
    if (hole := next((v for v in range(first, last + 1) if v not in commits), None)) is not None:
        raise UnknownVersion(
            f"the versions {first} to {last} of the table at {location.url} cannot be compacted: {commit_name(hole)} "
            "is not in its log; choose versions whose commits are all there",
            version=hole,
        )
    newest: dict[tuple[str, str], bytes] = {}
    for meta, data in read_bytes(location, [commits[version] for version in range(first, last + 1)]):
        lines = [line.strip() for line in data.split(b"\n") if line.strip()]
        actions = decode_lines(data, where=f"{log_url(location)}/{meta.name}")
        for action_id, line in zip(_action_ids(location, actions), lines, strict=True):
            if action_id is not None:
                # Popped first, so that the order is that of the newest actions.
                newest.pop(action_id, None)
                newest[action_id] = line
    name = compacted_name(first, last)
    location.store.put_if_absent(location.key(LOG, name), b"".join(line + b"\n" for line in newest.values()))
    return name


def _action_ids(location: Location, actions: list[Line]) -> list[tuple[str, str] | None]:
    """What each action replaces the older actions of; None for one that is no part of a state."""
    files = [(n, action) for n, line in enumerate(actions) if (action := line.add or line.remove) is not None]
    file_actions = [action for _, action in files]
    logical = logical_ids(file_keys(file_actions, location.anywhere), dv_ids_of(file_actions))
    ids = [_setting(line) for line in actions]
    for (n, _), logical_id in zip(files, logical.to_pylist(), strict=True):
        ids[n] = ("file", logical_id)
    return ids


def _setting(line: Line) -> tuple[str, str] | None:
    if line.protocol is not None:
        return "protocol", ""
    if line.meta_data is not None:
        return "metaData", ""
    if line.txn is not None:
        return "txn", line.txn.app_id
    if line.domain_metadata is not None:
        return "domain", line.domain_metadata.domain
    return None
