"""Which files below a table belong to indexes that some version of it needs.

1. A directory of an index is needed for as long as a version that is kept refers to it: the newest, those that were
   current within the retention, and pinned ones.
2. An index that cannot be read keeps every file of its name.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.delta.reachable import Past
from holdfast.index.registry import DIRECTORY, DOMAIN, registered


def of_indexes(listed: pa.Table, past: Past, pins: dict[str, int], *, horizon_ms: int) -> pa.Array:
    """The keys among those listed that indexes of kept versions refer to."""
    keys = listed.column("key").combine_chunks()
    keys = keys.filter(pc.starts_with(keys, f"{DIRECTORY}/"))
    if not len(keys):
        return keys
    needed: set[str] = set()
    unread: set[str] = set()
    for told in past.domains:  # one per commit of an index
        if not told.domain.startswith(DOMAIN) or told.configuration is None:
            continue
        until = past.told_until(told)
        pinned = any(told.version <= at and (until is None or at < until) for at in pins.values())
        if not (until is None or pinned or _is_recent(past, until, horizon_ms)):
            continue
        found = registered({told.domain: told.configuration})
        needed |= {key for index in found.indexes.values() for key in index.directories}
        unread |= {f"{DIRECTORY}/{name}/" for name in found.troubles}
    mask = pc.is_in(pc.replace_substring_regex(keys, "/[^/]*$", ""), value_set=pa.array(sorted(needed), pa.string()))
    for prefix in sorted(unread):
        mask = pc.or_(mask, pc.starts_with(keys, prefix))
    return keys.filter(mask)


def _is_recent(past: Past, version: int, horizon_ms: int) -> bool:
    """Whether a commit was written within the retention, or nobody can tell when."""
    written = int(past.written_ms[version])
    return written == 0 or written >= horizon_ms
