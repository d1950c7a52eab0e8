"""Encodes and searches vectors with the trained faiss quantizer of one generation.

All metrics are reduced to `l2`. Cosine is the distance of directions. The inner product is the distance of vectors that
one more element, sqrt(reach^2 - length^2), makes equally long; it is zero in the query.

1. A vector outside the range that the quantizer was trained for does not fit: it is reported, and stored unencoded.
2. An entry is identified by its number, from zero on, in the order of adding.
3. A search never returns entries that its mask excludes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.index.vector.library import library
from holdfast.index.vector.metric import Matrix, Metric, Numbers, directions
from holdfast.index.vector.options import Method

Floats = NDArray[np.float32]

_LONGEST = 1e18  # squares of longer vectors overflow 32 bits
_WIDEST = 6e4  # of an element of 16 bits
_FAR = 1.1  # times the largest distance to a centre in the sample, beyond which ivf_pq codes are useless
_LEAST_EFFORT = 128  # efSearch of a graph, at least


@dataclass(frozen=True, slots=True)
class Trained:
    """The parameters that segments of one generation share; flat segments share only the length of vectors."""

    method: Method
    metric: Metric
    length: int  # elements of a vector
    lists: int = 0
    probes: int = 0  # lists that a search visits by default
    spread: float = 0.0  # mean distance of vectors to the centres of their lists
    farthest: float = 0.0  # the greatest such distance
    reach: float = 0.0  # the length that every vector is extended to, for the inner product
    width: int = 0  # elements of a vector in the quantizer

    def json(self) -> dict[str, Any]:
        return asdict(self) | {"method": self.method.value, "metric": self.metric.value}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Trained:
        return cls(**values | {"method": Method(values["method"]), "metric": Metric(values["metric"])})


def prepared(vectors: Matrix, trained: Trained) -> tuple[Floats, NDArray[np.bool_]]:
    """Vectors in the form of the quantizer, and which of them fit."""
    wide = np.asarray(vectors, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.square(wide).sum(axis=1))
        match trained.metric:
            case Metric.L2:
                fits, mapped = lengths < _LONGEST, wide
            case Metric.COSINE:
                fits, mapped = np.ones(len(wide), bool), directions(wide)
            case Metric.DOT:
                fits = lengths <= trained.reach
                rest = np.sqrt(np.maximum(trained.reach**2 - np.square(lengths), 0.0))
                mapped = np.concatenate([wide, rest[:, None]], axis=1)
        narrow = np.zeros((len(mapped), trained.width), np.float32)
        narrow[:, : mapped.shape[1]] = mapped
    return narrow, fits


def prepared_queries(queries: NDArray[np.float64], trained: Trained) -> Floats | None:
    """Queries in the form of the quantizer; None if they are too long."""
    narrow = np.zeros((len(queries), trained.width), np.float32)
    if trained.metric is not Metric.L2:
        narrow[:, : trained.length] = directions(queries)  # the length of a query does not change the order
        if trained.metric is Metric.DOT:
            narrow[:, : trained.length] *= np.float32(trained.reach)
        return narrow
    if (np.abs(queries).max(initial=0.0) * np.sqrt(queries.shape[1])) >= _LONGEST:
        return None
    narrow[:, : trained.length] = queries
    return narrow


class Coder:
    """A quantizer, and the entries that were added to it."""

    def __init__(self, trained: Trained, blob: bytes) -> None:
        self._faiss = library()
        self.trained = trained
        self._index = self._faiss.deserialize_index(np.frombuffer(blob, np.uint8))
        self._low, self._high = self._bounds()

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, narrow: Floats) -> tuple[NDArray[np.bool_], float]:
        """Add the vectors that fit; returns which, and the sum of all distances to their centres."""
        if not self.trained.method.has_lists:
            self._index.add(narrow)
            return np.ones(len(narrow), bool), 0.0
        squares, lists = self._index.quantizer.search(narrow, 1)
        away = np.sqrt(np.maximum(squares[:, 0], 0.0))
        fits = self._fits(narrow, lists[:, 0], away)
        fitting, at = np.ascontiguousarray(narrow[fits]), np.ascontiguousarray(lists[fits, 0])
        numbers = np.arange(len(self), len(self) + len(fitting))
        pointer = self._faiss.swig_ptr
        self._index.add_core(len(fitting), pointer(fitting), pointer(numbers), pointer(at))
        return fits, float(away.sum(dtype=np.float64))

    def search(self, queries: Floats, k: int, probes: int, allowed: NDArray[np.bool_] | None) -> tuple[Numbers, Floats]:
        """The numbers and approximate distances of up to k entries per query, nearest first; -1: no more."""
        k = min(k, max(len(self), 1))
        bits = None if allowed is None else np.packbits(allowed, bitorder="little")
        chosen = None if bits is None else self._faiss.IDSelectorBitmap(bits)
        if self.trained.method.has_lists:
            params = self._faiss.SearchParametersIVF(sel=chosen, nprobe=min(max(probes, 1), self.trained.lists))
        else:
            params = self._faiss.SearchParametersHNSW(sel=chosen, efSearch=max(k, probes, _LEAST_EFFORT))
        away, numbers = self._index.search(queries, k, params=params)
        return numbers, away

    def stored(self) -> bytes:
        """The entries as bytes, without the quantizer unless it is a graph."""
        if not self.trained.method.has_lists:
            whole: bytes = self._faiss.serialize_index(self._index).tobytes()
            return whole
        writer = self._faiss.VectorIOWriter()
        self._faiss.write_InvertedLists(self._index.invlists, writer)
        lists: bytes = self._faiss.vector_to_array(writer.data).tobytes()
        return lists

    def load(self, stored: bytes) -> None:
        """Replace the entries by stored ones."""
        data = np.frombuffer(stored, np.uint8)
        if not self.trained.method.has_lists:
            self._index = self._faiss.deserialize_index(data)
            return
        reader = self._faiss.VectorIOReader()
        self._faiss.copy_array_to_vector(data, reader.data)
        lists = self._faiss.read_InvertedLists(reader)
        self._index.replace_invlists(lists, True)
        lists.this.disown()  # the index frees them
        self._index.ntotal = lists.compute_ntotal()

    def adopt(self, other: Coder, kept: NDArray[np.bool_]) -> None:
        """Add some entries of another coder of this generation, in their order."""
        if not self.trained.method.has_lists:
            vectors = other._index.reconstruct_n(0, len(other))
            self._index.add(np.ascontiguousarray(vectors[kept]))
            return
        renumbered = np.cumsum(kept) - 1 + len(self)
        pointer, mine, theirs = self._faiss.swig_ptr, self._index.invlists, other._index.invlists
        for number in range(self.trained.lists):
            size = theirs.list_size(number)
            if not size:
                continue
            entries = self._faiss.rev_swig_ptr(theirs.get_ids(number), size)
            codes = self._faiss.rev_swig_ptr(theirs.get_codes(number), size * theirs.code_size).reshape(size, -1)
            stay = kept[entries]
            numbers, rows = renumbered[entries[stay]], np.ascontiguousarray(codes[stay])
            mine.add_entries(number, len(numbers), pointer(numbers), pointer(rows))
        self._index.ntotal += int(kept.sum())

    def codes(self) -> tuple[Numbers, NDArray[Any]]:
        """The list and the code of each entry."""
        if not self.trained.method.has_lists:
            return np.zeros(len(self), np.int64), self._index.reconstruct_n(0, len(self))
        lists = self._index.invlists
        homes, codes = np.full(len(self), -1, np.int64), np.zeros((len(self), lists.code_size), np.uint8)
        for number in range(self.trained.lists):
            size = lists.list_size(number)
            if size:
                entries = self._faiss.rev_swig_ptr(lists.get_ids(number), size)
                homes[entries] = number
                codes[entries] = self._faiss.rev_swig_ptr(lists.get_codes(number), size * lists.code_size).reshape(
                    size, -1
                )
        return homes, codes

    def _fits(self, narrow: Floats, lists: Numbers, away: Floats) -> NDArray[np.bool_]:
        method = self.trained.method
        if method is Method.IVF_FLAT:
            return np.ones(len(narrow), bool)
        if method is Method.IVF_PQ:
            near: NDArray[np.bool_] = away <= self.trained.farthest * _FAR
            return near
        centres = self._index.quantizer.reconstruct_batch(lists)
        rest = narrow - centres
        inside: NDArray[np.bool_] = ((rest >= self._low) & (rest <= self._high)).all(axis=1)
        return inside

    def _bounds(self) -> tuple[Any, Any]:
        """The range of the elements of a vector minus its centre."""
        if self.trained.method is not Method.IVF_SQ8:
            return -_WIDEST, _WIDEST
        low, span = self._faiss.vector_to_array(self._index.sq.trained).reshape(2, -1)
        return low, low + span
