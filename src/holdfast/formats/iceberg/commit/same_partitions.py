"""Finds the files of a table that are in the same partitions as staged files, for a dynamic partition overwrite.

1. Partitions are compared by the tuples of the current spec; null equals null.
2. A table with files of another spec is refused: their tuples do not tell which rows belong to a partition.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid
from holdfast.formats.iceberg.commit.staging import value_of
from holdfast.formats.iceberg.metadata.partition_groups import pair_codes, value_codes
from holdfast.formats.iceberg.metadata.single_values import decode_partition_values
from holdfast.formats.iceberg.state import IcebergState
from holdfast.model.files import PARTITION


def in_same_partitions(state: IcebergState, staged: pa.Table) -> pa.BooleanArray:
    """Which of a table's files are in a partition that a staged file is in."""
    files, types = state.snapshot.files.table, state.contents.types
    spec, where = types.specs[state.metadata.default_spec_id], state.metadata.location
    if spec.is_unpartitioned:
        raise Invalid(f"dynamic partition overwrite needs a partitioned table, and {where} is none")
    if not files.num_rows:
        return pa.array([], pa.bool_())
    if not pc.all(pc.equal(files["spec_id"], spec.spec_id)).as_py():
        raise Invalid(
            f"some files of {where} are placed by an older partition spec, so rows of a partition may be in any of "
            "them: overwrite with replaceWhere instead"
        )
    field_ids = {f.field_id for f in spec.fields if f.transform.kind != "void"}
    codes = np.zeros(files.num_rows + staged.num_rows, np.int64)
    texts = [dict(row or ()) for row in staged["partition_values"].to_pylist()]  # one per new file
    for f in types.unified:
        if f.field_id in field_ids:
            raw = pa.array([value_of(text.get(str(f.field_id)), f.spelled) for text in texts])
            own = pc.struct_field(files[PARTITION].combine_chunks(), f.name)
            codes = pair_codes(codes, value_codes([own, decode_partition_values(raw, f.spelled, f.type)]))
    return pa.array(np.isin(codes[: files.num_rows], codes[files.num_rows :]))
