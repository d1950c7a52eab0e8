"""Partition values checked against what files say of the column they were taken from.

1. A file whose bounds of a column are one value holds that value and no other number, so an identity tuple with another
   one is wrong: conditions pass its rows by. Doubles that went through a float are the usual case.
2. Deletes apply to files of their own tuple. Those whose double is that of no file, but what one of them is as a float,
   were meant for it and do not reach it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.iceberg.manifests import DELETES, Listed
from holdfast.iceberg.metrics import picked
from holdfast.iceberg.spec import PartField
from holdfast.iceberg.state import IcebergState
from holdfast.iceberg.types import stored_names
from holdfast.iceberg.values import bounds_of
from holdfast.model.finding import Finding, Kind
from holdfast.schema.types import Primitive

_TYPES = {name: Primitive(name) for name in ("float", "double")}


def wrong_tuples(state: IcebergState) -> Iterator[Finding]:
    """Partition values of the newest snapshot that are not those of their files."""
    shape = state.contents.shape
    spelled = stored_names(state.metadata.schema_of(None, state.metadata_path))
    for spec in shape.specs.values():
        for f in spec.fields:
            if f.transform.kind == "identity" and spelled.get(f.source_id) in _TYPES:
                listed = [one for one in state.contents.listed if one.spec_id == spec.spec_id and len(one)]
                yield from _of_field(listed, f, spelled[f.source_id])


def _of_field(listed: list[Listed], f: PartField, spelled: str) -> Iterator[Finding]:
    exact: list[NDArray[np.float64]] = []
    for one in listed:
        if one.manifest.content != DELETES and (values := _values(one, f)) is not None:
            true = _single(one, f, spelled)
            wrong = pc.fill_null(pc.not_equal(values, true), False)
            exact.append(pc.if_else(wrong, true, values).drop_null().to_numpy())
            paths = one.entries["file_path"].combine_chunks()
            for path, value, own in zip(*(a.filter(wrong).to_pylist() for a in (paths, values, true)), strict=True):
                what = (
                    f"{path} has {own!r} in every row of the column that its partition is taken from, and its manifest "
                    f"says {value!r}: conditions miss its rows; rewrite them, by an update of that column to itself "
                    "with a condition on another column"
                )
                yield Finding(Kind.WRONG_PARTITION, what, file=path)
    known = np.unique(np.concatenate(exact)) if exact else np.zeros(0)
    with np.errstate(over="ignore"):
        rounded = np.setdiff1d(known.astype(np.float32).astype(np.float64), known)
    for one in listed:
        if one.manifest.content == DELETES and (values := _values(one, f)) is not None:
            lost = pc.is_in(values, value_set=pa.array(rounded))
            paths = one.entries["file_path"].combine_chunks()
            for path, value in zip(*(a.filter(lost).to_pylist() for a in (paths, values)), strict=True):
                what = (
                    f"{path} holds deletes for the partition {value!r}, which no file is in and which is the float of "
                    "one that files are in: they do not apply there, so that rows are back; delete these again"
                )
                yield Finding(Kind.WRONG_PARTITION, what, file=path)


def _values(one: Listed, f: PartField) -> pa.Array | None:
    values = one.partition_column(f.field_id, f.name)
    return None if values is None or not pa.types.is_floating(values.type) else values.cast(pa.float64())


def _single(one: Listed, f: PartField, spelled: str) -> pa.Array:
    """The one value that each file has in the column of a field, by its bounds; null where that is not known."""
    low, high = (
        bounds_of(picked(one.entries[name], f.source_id), spelled, _TYPES[spelled]).cast(pa.float64())
        for name in ("lower_bounds", "upper_bounds")
    )
    return pc.if_else(pc.fill_null(pc.equal(low, high), False), low, pa.scalar(None, pa.float64()))
