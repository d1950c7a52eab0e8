"""Checks the entries of a vector index against the rows of a table, and rows against entries.

1. A valid entry must have the code and the list that its row's vector gets now; a flat entry must be the vector.
2. A row outside the tail that has a vector must have a valid entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.engines.local.indexing import ID, VERSION, indexed_rows
from holdfast.errors import TableError
from holdfast.index.kinds import Site
from holdfast.index.reader import PinnedReader
from holdfast.index.registry import Index
from holdfast.index.segment import id_version_pairs
from holdfast.index.tail import Tail
from holdfast.index.vector.coder import Coder, prepared
from holdfast.index.vector.column import vectors_of
from holdfast.index.vector.metric import Matrix, Numbers
from holdfast.index.vector.opened import OpenSegment, quantizer_of, read_segment
from holdfast.schema.types import Field

_AT_ONCE = 1 << 16


def contradicting(index: Index, reader: PinnedReader, column: Field, sample: int | None) -> Iterator[str]:
    """Damaged files, and valid entries that have another vector than their row."""
    location = reader.snapshot.location
    for ref in index.segments:
        try:
            segment = read_segment(location, ref)
            if len(segment) != ref.entries:
                yield f"{ref.directory} has {len(segment)} entries, not {ref.entries}"
            step = 1 if sample is None else max(1, len(segment) // max(sample, 1))
            chosen = np.arange(0, len(segment), step)
            homes, codes = (None, None) if segment.coder is None else segment.coder.codes()
            quantizer = quantizer_of(location, ref)
            for start in range(0, len(chosen), _AT_ONCE):
                some = chosen[start : start + _AT_ONCE]
                located, valid = segment.locate(some, reader)
                some = some[valid]
                if not len(some):
                    continue
                rows = reader.take_at(located.files[valid], located.positions[valid], [column.name])
                vectors = vectors_of(rows.column(0), segment.trained.length)
                wrong = np.setdiff1d(np.arange(len(some)), vectors.rows)
                some = some[vectors.rows]
                if not len(wrong):
                    wrong = _differing(segment, some, vectors.matrix, quantizer, homes, codes)
                if len(wrong):
                    ids = ", ".join(map(str, segment.ids[some[wrong[:3]]].tolist()))
                    yield f"entries of {ref.directory} have other vectors than their rows, such as those of ids {ids}"
                    break
        except TableError as error:
            yield str(error)


def lacking(index: Index, site: Site, tail: Tail, column: Field, sample: int | None) -> Iterator[str]:
    """Rows outside the tail without an entry."""
    snapshot = site.snapshot
    segments = [read_segment(snapshot.location, ref) for ref in index.segments]
    nothing = np.zeros(0, np.int64)
    held = id_version_pairs(
        np.concatenate([nothing, *(s.ids for s in segments)]),
        np.concatenate([nothing, *(s.versions for s in segments)]),
    )
    skipped_keys = pa.array([*tail.whole.column("key").to_pylist(), *tail.again.column("key").to_pylist()], pa.string())
    newer = set(tail.newer.column("key").to_pylist())
    files = snapshot.files.filter(
        pc.invert(pc.is_in(snapshot.files.column("key").combine_chunks(), value_set=skipped_keys))
    )
    rows_left = sample
    for at, key in enumerate(files.column("key").to_pylist()):  # one file after another
        one = files.filter(pa.array(np.arange(len(files)) == at))
        for rows in indexed_rows(snapshot, one, site.load_hidden(snapshot.location, one), [column], None):
            if key in newer:
                rows = rows.filter(pc.less_equal(rows.column(VERSION), pa.scalar(tail.version)))
            with_vector = vectors_of(rows.column(0), segments[0].trained.length if segments else None).rows
            ids, versions = (rows.column(name).to_numpy()[with_vector] for name in (ID, VERSION))
            lost = np.flatnonzero(~np.isin(id_version_pairs(ids, versions), held))
            if len(lost):
                yield f"{len(lost)} rows of {key} have no entry, such as row id {ids[lost[0]]}"
                break
            rows_left = None if rows_left is None else rows_left - rows.num_rows
            if rows_left is not None and rows_left <= 0:
                return


def _differing(
    segment: OpenSegment,
    entries: Numbers,
    vectors: Matrix,
    quantizer: bytes,
    homes: Numbers | None,
    codes: NDArray[Any] | None,
) -> Numbers:
    """Which of these entries do not match the code of their vectors."""
    is_flat = entries >= segment.coded
    wrong = np.zeros(len(entries), bool)
    wrong[is_flat] = (segment.flat[entries[is_flat] - segment.coded] != vectors[is_flat]).any(axis=1)
    coded = np.flatnonzero(~is_flat)
    if len(coded) and homes is not None and codes is not None:
        narrow, fits = prepared(vectors[coded], segment.trained)
        if not segment.trained.method.has_lists:
            wrong[coded] = ~fits | (codes[entries[coded]] != narrow).any(axis=1)
            return np.flatnonzero(wrong)
        again = Coder(segment.trained, quantizer)
        inside, _ = again.add(narrow)
        if not (inside & fits).all():
            return coded[~(inside & fits)]
        homes_now, coded_as = again.codes()
        wrong[coded] = (homes_now != homes[entries[coded]]) | (coded_as != codes[entries[coded]]).any(axis=1)
    return np.flatnonzero(wrong)
