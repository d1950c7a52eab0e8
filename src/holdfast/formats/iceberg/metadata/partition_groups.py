"""Numbers the partitions of files, so that files of the same partition have the same number.

1. Two files are of one partition exactly if their specs are the same and every value of their tuples is; null equals
   null, NaN equals NaN whatever its bits, and the zeros of a float are two values.
2. Stored tuples are compared, so a column that was dropped since still counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Damaged
from holdfast.formats.iceberg.metadata.manifests import ManifestEntries
from holdfast.formats.iceberg.metadata.partition_spec import PartitionSpec


def partition_groups(
    listed: Sequence[ManifestEntries], specs: Mapping[int, PartitionSpec], *, where: str
) -> list[NDArray[np.int64]]:
    """The partition number of each file, manifest by manifest."""
    groups: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(listed)
    start = 0
    for spec_id in sorted({one.spec_id for one in listed}):
        if spec_id not in specs:
            raise Damaged(f"a manifest of {where} is of partition spec {spec_id}, which the metadata lacks", path=where)
        places = [at for at, one in enumerate(listed) if one.spec_id == spec_id]
        codes = _codes([listed[at] for at in places], specs[spec_id])
        ends = np.cumsum([len(listed[at]) for at in places])[:-1]
        for at, part in zip(places, np.split(codes + start, ends), strict=True):
            groups[at] = part
        start += int(codes.max(initial=-1)) + 1
    return groups


def _codes(listed: Sequence[ManifestEntries], spec: PartitionSpec) -> NDArray[np.int64]:
    codes = np.zeros(sum(map(len, listed)), np.int64)
    for f in spec.fields:
        if f.transform.kind != "void":
            columns = [(one, one.partition_column(f.field_id, f.name)) for one in listed]
            values = [pa.nulls(len(one)) if column is None else column for one, column in columns]
            codes = pair_codes(codes, value_codes(values))
    return codes


def value_codes(arrays: Iterable[pa.Array]) -> NDArray[np.int64]:
    """Codes of the values of several arrays, equal exactly where the values are (rule 1)."""
    kept = [_comparable(array) for array in arrays]
    types = {array.type for array in kept if not pa.types.is_null(array.type)}
    target = types.pop() if len(types) == 1 else pa.string()
    whole = pa.chunked_array([array.cast(target) for array in kept], target)
    encoded = whole.combine_chunks().dictionary_encode()
    codes: NDArray[np.int32] = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64) + 1


def _comparable(array: pa.Array) -> pa.Array:
    """Floats as their bits, with one NaN, so that equality is that of rule 1."""
    if not pa.types.is_floating(array.type):
        return array
    absent = array.is_null().to_numpy(zero_copy_only=False)
    numbers = array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(np.where(np.isnan(numbers), np.nan, numbers).view(np.int64), mask=absent)


def pair_codes(codes: NDArray[np.int64], more: NDArray[np.int64]) -> NDArray[np.int64]:
    """Codes of pairs of codes."""
    pairs = codes * (int(more.max(initial=0)) + 1) + more
    inverse: NDArray[np.intp] = np.unique(pairs, return_inverse=True)[1]
    return inverse.astype(np.int64)
