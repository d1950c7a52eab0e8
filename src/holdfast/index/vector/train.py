"""Trains the quantizer of a generation on a sample of the vectors.

1. The number of lists that a search visits is measured on the sample: enough that they hold FOUND of the nearest. The
   sample is larger than training needs, so that distances in it are about those among all rows. In a smaller sample the
   nearest are farther away, and the measure gives more lists.
2. The same sample gives the same quantizer.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import Invalid
from holdfast.index.vector.coder import Floats, Trained, prepared, prepared_queries
from holdfast.index.vector.library import library
from holdfast.index.vector.metric import Matrix, Metric
from holdfast.index.vector.options import Method, VectorOptions

SAMPLE_PER_LIST = 64
MOST_SAMPLED = 1_000_000
FOUND = 0.97  # of the nearest that the visited lists must hold
COMPARED_SHARE = 0.25  # of all rows that a search is measured on
COMPARED_BYTES = 1 << 27  # and no more of their vectors

_OTHER_SAMPLE = 25_600  # for what is trained in addition to lists
_QUERIES = 256
_NEAREST = 10
_MARGIN = 0.1  # of the range in the sample, added on either side
_LONGER = 1.05  # times the longest vector of the sample
_CODES = 256  # of a group of elements


def sample_rows(options: VectorOptions, rows: int, length: int) -> int:
    """How many vectors of this length to sample from this many rows."""
    method = options.method_for(rows)
    if method is Method.FLAT:
        return 1
    if not method.has_lists:
        return _OTHER_SAMPLE
    trained = max(SAMPLE_PER_LIST * options.lists_for(rows), 0 if method is Method.IVF_SQ8 else _OTHER_SAMPLE)
    compared = min(ceil(COMPARED_SHARE * rows), COMPARED_BYTES // (4 * max(length, 1)))
    return min(max(trained, compared), MOST_SAMPLED)


def train(sample: Matrix, options: VectorOptions, rows: int) -> tuple[Trained, bytes]:
    """A quantizer for this many rows, as faiss stores it; no bytes for method flat."""
    method, metric, length = options.method_for(rows), options.metric, sample.shape[1]
    if method is Method.FLAT:
        return Trained(method, metric, length), b""
    reach = _LONGER * float(np.sqrt(np.square(sample.astype(np.float64)).sum(axis=1)).max(initial=0.0))
    width = length + (metric is Metric.DOT)
    lists = min(options.lists_for(rows), len(sample)) if method.has_lists else 0
    groups = options.groups or ceil(width / 4)
    if method is Method.IVF_PQ:
        if groups > width:
            raise Invalid(f"groups={groups} are more than the {width} elements of a vector")
        if len(sample) < _CODES:
            raise Invalid(
                f"a vector index of method 'ivf_pq' is trained on at least {_CODES} vectors, and the table has "
                f"{len(sample)}: leave method out, or come back with more rows"
            )
        width = ceil(width / groups) * groups
    trained = Trained(method, metric, length, lists, reach=reach, width=width)
    narrow, fits = prepared(sample, trained)
    index = _empty(trained, groups, options.links or 16)
    if not method.has_lists:
        return trained, library().serialize_index(index).tobytes()
    narrow = np.ascontiguousarray(narrow[fits])
    least = max(SAMPLE_PER_LIST * lists, 0 if method is Method.IVF_SQ8 else _OTHER_SAMPLE)
    some = np.ascontiguousarray(narrow[np.random.default_rng(1).permutation(len(narrow))[:least]])
    index.train(some)
    away = np.sqrt(np.maximum(index.quantizer.search(some, 1)[0][:, 0], 0.0))
    trained = replace(
        trained,
        spread=float(away.mean()),
        farthest=float(away.max()),
        probes=_probes(index.quantizer, narrow, sample[fits], trained, rows),
    )
    return trained, library().serialize_index(index).tobytes()


def _empty(trained: Trained, groups: int, links: int) -> Any:
    faiss, width, lists = library(), trained.width, trained.lists
    if trained.method is Method.HNSW:
        graph = faiss.IndexHNSWFlat(width, links)
        graph.hnsw.efConstruction = 100
        return graph
    coarse = faiss.IndexFlatL2(width)
    match trained.method:
        case Method.IVF_FLAT:
            index = faiss.IndexIVFFlat(coarse, width, lists)
        case Method.IVF_PQ:
            index = faiss.IndexIVFPQ(coarse, width, lists, groups, 8)
            index.pq.cp.min_points_per_centroid = 1
        case Method.IVF_SQFP16:
            index = faiss.IndexIVFScalarQuantizer(coarse, width, lists, faiss.ScalarQuantizer.QT_fp16)
        case _:
            index = faiss.IndexIVFScalarQuantizer(coarse, width, lists, faiss.ScalarQuantizer.QT_8bit)
            index.sq.rangestat_arg = _MARGIN
    index.cp.min_points_per_centroid = 1  # no warning about few points
    return index


def _probes(centres: Any, narrow: Floats, sample: Matrix, trained: Trained, rows: int) -> int:
    near = max(1, ceil(_NEAREST * len(narrow) / max(rows, 1)))  # how many of the nearest of all rows are in the sample
    chosen = np.random.default_rng(0).permutation(len(narrow))[:_QUERIES]
    queries = prepared_queries(sample[chosen].astype(np.float64), trained)
    if queries is None or len(narrow) <= near:
        return trained.lists
    neighbours = library().knn(queries, narrow, near + 1)[1]
    others = neighbours != chosen[:, None]
    others[others.all(axis=1), -1] = False  # a duplicate took the place of the query: leave out the farthest
    near_by, at = np.unique(neighbours, return_inverse=True)
    home = centres.search(narrow[near_by], 1)[1][:, 0][at].reshape(neighbours.shape)
    order: NDArray[np.int64] = centres.search(queries, trained.lists)[1]
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(trained.lists), order.shape), axis=1)
    needed = np.take_along_axis(ranks, home, axis=1)[others]
    return int(np.quantile(needed, FOUND, method="higher")) + 1
