"""Tuples told as files prove them, and manifests counted anew: the manifests of a repair.

1. Only manifests with a wrong value, or that their list counts otherwise, are written anew; every entry stays what it
   was (its sequence numbers, its snapshot, its row ids), but for that value. No data file and no delete file comes or
   goes.
2. What is wrong is looked for in the snapshot that the attempt is made on, so a lost race costs no more than another
   look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.iceberg.audit_tuples import check_tuples
from holdfast.iceberg.manifests import miscounted
from holdfast.iceberg.transact_manifests import Writing, listed_before


def mended(writing: Writing) -> Iterator[Mapping[str, Any]]:
    """The manifests of the state that is written on, with the tuples that files prove."""
    state = writing.state
    exact = check_tuples(state, footers=True).exact or {}
    listed = {one.manifest.path: one for one in state.contents.listed}
    for row in listed_before(state):
        one = listed[row["manifest_path"]]
        is_wrong = one.manifest.path in exact or miscounted(one) is not None
        yield writing.retold(one, exact.get(one.manifest.path, {})) if is_wrong else row
