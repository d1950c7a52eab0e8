"""Log compaction: the commits of a stretch of versions as one file that says what they say together.

1. The file has the newest action of each logical file, application and domain, and the newest protocol and metaData,
   each exactly as its commit spelled it.
2. Removals stay, of files and of domains: they speak against what was true before the stretch.
3. commitInfo and cdc stay in the commits, which are not touched.
4. A stretch with a hole is refused.
"""

from __future__ import annotations

from holdfast.errors import Invalid, UnknownVersion
from holdfast.formats.delta.log.actions import Line, decode_lines
from holdfast.formats.delta.log.columns import logical_ids
from holdfast.formats.delta.log.file_names import LOG, commit_name, compacted_name, first_name
from holdfast.formats.delta.log.listing import list_log, log_url, read_bytes
from holdfast.storage.arrays import strings
from holdfast.storage.location import Location


def write_log_compaction(location: Location, first: int, last: int) -> str:
    """Write the compaction of the versions from `first` to `last`, both included, unless it is there; its name."""
    if not 0 <= first < last:
        raise Invalid(f"a log compaction goes from one version to a later one, not from {first} to {last}")
    commits = list_log(location, start=first_name(first)).commits
    if (hole := next((v for v in range(first, last + 1) if v not in commits), None)) is not None:
        raise UnknownVersion(
            f"the versions {first} to {last} of the table at {location.url} cannot be compacted: {commit_name(hole)} "
            "is not in its log; choose versions whose commits are all there",
            version=hole,
        )
    wanted = tuple(commits[version] for version in range(first, last + 1))
    newest: dict[tuple[str, str], bytes] = {}
    for meta, data in read_bytes(location, wanted):
        where = f"{log_url(location)}/{meta.name}"
        spelled = [line for line in data.split(b"\n") if line.strip()]
        actions = decode_lines(data, where=where)
        for subject, line in zip(_subjects(location, actions), spelled, strict=True):
            if subject is not None:
                # Taken out first, so that actions stand in the order of their last mention.
                newest.pop(subject, None)
                newest[subject] = line.strip()
    name = compacted_name(first, last)
    location.store.put_if_absent(location.key(LOG, name), b"".join(line + b"\n" for line in newest.values()))
    return name


def _subjects(location: Location, actions: list[Line]) -> list[tuple[str, str] | None]:
    """What each action is about; None for one that no reader of a state asks for."""
    files = [(n, action) for n, line in enumerate(actions) if (action := line.add or line.remove) is not None]
    keys = location.anywhere.file_keys(strings([action.path for _, action in files]))
    vectors = strings([None if (dv := action.deletion_vector) is None else dv.unique_id for _, action in files])
    found = [_setting(line) for line in actions]
    for (n, _), logical in zip(files, logical_ids(keys, vectors).to_pylist(), strict=True):
        found[n] = ("file", logical)
    return found


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
