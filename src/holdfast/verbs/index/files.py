"""Chooses the files below a table that belong to indexes which a kept version needs.

1. The directory of an index is needed for as long as a kept version refers to it: the newest, those that were current
   within the retention, and pinned ones.
2. An index that cannot be read keeps every file of its name.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.index.registry import DIRECTORY, DOMAIN, registered


def of_indexes(keys: pa.Array, domains: Iterable[tuple[str, str]]) -> pa.Array:
    """Those of some keys that indexes refer to; `domains` are names and configurations that kept versions have."""
    keys = keys.filter(pc.starts_with(keys, f"{DIRECTORY}/"))
    if not len(keys):
        return keys
    needed: set[str] = set()
    unread: set[str] = set()
    for name, configuration in sorted(set(domains)):  # one per commit of an index
        if name.startswith(DOMAIN):
            registry = registered({name: configuration})
            needed |= {key for index in registry.indexes.values() for key in index.directories}
            unread |= {f"{DIRECTORY}/{index}/" for index in registry.troubles}
    mask = pc.is_in(pc.replace_substring_regex(keys, "/[^/]*$", ""), value_set=pa.array(sorted(needed), pa.string()))
    for prefix in sorted(unread):
        mask = pc.or_(mask, pc.starts_with(keys, prefix))
    return keys.filter(mask)
