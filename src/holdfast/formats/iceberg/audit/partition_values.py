"""Partition values checked against what files say of the column they were taken from, and what they must be instead.

1. A file whose bounds of a column are one value holds that value and no other number, so an identity tuple with another
   one is wrong: conditions pass its rows by. Doubles that went through a float are the usual case.
2. What a tuple must be is told only where it is proved: the stored value is what that of the file is as a float.
   Deletes by position go where the data files are that they name; deletes by value where their own bounds say. Bounds
   that a manifest does not keep are in the footer of the file.
3. Deletes apply to files of their own tuple, so both move together: files stay where deletes by value are that do not
   say whose they are, or deletes by position that name files of two values, for else rows would come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.iceberg.audit.footers import only_value
from holdfast.formats.iceberg.deletes.reader import read_position_deletes
from holdfast.formats.iceberg.deletes.scope import referenced_files
from holdfast.formats.iceberg.metadata.fetch import each
from holdfast.formats.iceberg.metadata.manifests import DELETES, EQUALITY_DELETES, POSITION_DELETES, ManifestEntries
from holdfast.formats.iceberg.metadata.metrics import metric_of
from holdfast.formats.iceberg.metadata.partition_spec import PartitionField
from holdfast.formats.iceberg.metadata.paths import Paths, path_indices
from holdfast.formats.iceberg.metadata.single_values import decode_bounds
from holdfast.formats.iceberg.metadata.types import type_names
from holdfast.formats.iceberg.state import IcebergState
from holdfast.model.finding import Finding, FindingKind
from holdfast.schema.types import Primitive
from holdfast.storage.arrays import strings

_TYPES = {name: Primitive(name) for name in ("float", "double")}
_REPAIR = "says the exact value in the manifest"
Doubles = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ask = Callable[[Mapping[str, Any]], float | None]  # what a file says, by its entry


@dataclass(frozen=True, slots=True)
class PartitionCheck:
    """What is wrong with partition values, and what they must be."""

    findings: tuple[Finding, ...] = ()
    exact: Mapping[str, Mapping[str, pa.Array]] | None = None  # by manifest, then stored name; null: as it is
    rehides: bool = False  # whether deletes come to apply where they did not

    @property
    def count(self) -> int:
        """How many values must change."""
        return sum(len(a) - a.null_count for named in (self.exact or {}).values() for a in named.values())


def check_partition_values(state: IcebergState, *, footers: bool) -> PartitionCheck:
    """Partition values of a snapshot that are not those of their files.

    `footers` lets it open files whose manifests keep no bounds of the column.
    """
    spelled = type_names(state.metadata.schema_of(None, state.metadata_path))
    findings: list[Finding] = []
    exact: dict[str, dict[str, pa.Array]] = {}
    rehides = False
    for spec in state.contents.types.specs.values():
        for f in spec.fields:
            if f.transform.kind == "identity" and spelled.get(f.source_id) in _TYPES:
                listed = [one for one in state.contents.listed if one.spec_id == spec.spec_id and len(one)]
                ask = partial(only_value, state.paths, field_id=f.source_id) if footers else None
                column = _Column(state.paths, listed, f, spelled[f.source_id], ask)
                findings += column.findings()
                rehides |= column.rehides
                for path, name, values in column.exact():
                    exact.setdefault(path, {})[name] = values
    return PartitionCheck(tuple(findings), exact, rehides)


class _Side:
    """The entries of some manifests that have a partition field: their values, and what their bounds say."""

    def __init__(
        self, paths: Paths, listed: Sequence[ManifestEntries], f: PartitionField, spelled: str, ask: Ask | None
    ) -> None:
        self.listed = [one for one in listed if _values(one, f) is not None]
        self.paths = _joined([one.entries["file_path"].combine_chunks() for one in self.listed], pa.string())
        self.stored = _joined([_values(one, f) for one in self.listed], pa.float64())
        own = [_single(one, f, spelled) for one in self.listed]
        if ask is not None:
            own = [_asked(paths, one, f, known, ask) for one, known in zip(self.listed, own, strict=True)]
        self.own = _joined(own, pa.float64())
        wide = [np.full(len(one), pa.types.is_float64(_raw(one, f).type)) for one in self.listed]
        self.values, self.true = (a.to_numpy(zero_copy_only=False) for a in (self.stored, self.own))
        self.wrong: Mask = pc.fill_null(pc.not_equal(self.stored, self.own), False).to_numpy(zero_copy_only=False)
        # A manifest of before a float became a double has no room for more.
        self.proved = self.wrong & (_as_float(self.true) == self.values) & np.concatenate([*wide, np.zeros(0, bool)])

    def parts(self, values: Doubles) -> Iterator[tuple[ManifestEntries, pa.Array]]:
        """Values by manifest; NaN is null."""
        start = 0
        for one in self.listed:
            part = values[start : start + len(one)]
            yield one, pa.array(part, mask=np.isnan(part))
            start += len(one)


class _Column:
    """One partition field of a spec."""

    def __init__(
        self, paths: Paths, listed: Sequence[ManifestEntries], f: PartitionField, spelled: str, ask: Ask | None
    ) -> None:
        self.paths, self.f = paths, f
        self.data, self.deletes = (
            _Side(paths, [one for one in listed if (one.manifest.content == DELETES) is removes], f, spelled, ask)
            for removes in (False, True)
        )
        entries = [one.entries for one in self.deletes.listed]
        self.entries = pa.concat_tables(entries) if entries else None
        self.moves = np.full(len(self.deletes.values), np.nan)
        self.unclear = np.zeros(len(self.deletes.values), np.bool_)
        data, deletes = self.data, self.deletes
        held = self._held()
        self.leaving = data.proved & ~np.isin(data.values, held)
        final = self._final(self.leaving)
        for at, files in self.named.items():  # one per delete file that may be placed otherwise than its files
            targets = np.unique(final[files])
            if len(targets) == 1 and targets[0] != deletes.values[at]:
                self.moves[at] = targets[0]
            self.unclear[at] = len(targets) > 1 or files is _UNREADABLE
        for at in np.flatnonzero(self.near & self.by_value).tolist():  # one per file of deletes by value
            if deletes.proved[at] and not np.isin(deletes.values[at], held):
                self.moves[at] = deletes.true[at]
            elif deletes.true[at] != deletes.values[at]:
                self.unclear[at] = deletes.values[at] not in final
        self.rehides = any(self._rehides(at, final) for at in np.flatnonzero(self.mixed).tolist())

    def _rehides(self, at: int, final: Doubles) -> bool:
        """Whether some deletes come to apply to a file that they did not apply to."""
        stored = self.deletes.values[at]
        files = self.named.get(at, np.arange(len(final)))
        now = stored if np.isnan(self.moves[at]) else self.moves[at]
        return bool(((final[files] == now) & (self.data.values[files] != stored)).any())

    @cached_property
    def mixed(self) -> Mask:
        """Deletes of a float that files or deletes spell in two ways."""
        spelled = np.unique(np.concatenate([self.data.values, self._final(self.data.proved), self.deletes.values]))
        floats, counts = np.unique(_as_float(spelled), return_counts=True)
        return np.isin(_as_float(self.deletes.values), floats[counts > 1])

    @cached_property
    def near(self) -> Mask:
        """Deletes in a partition that is what a file's value is as a float."""
        final = self._final(self.data.proved)
        rounded = _as_float(final)
        return np.isin(self.deletes.values, rounded[(rounded != final) & ~np.isnan(final)])

    @cached_property
    def by_value(self) -> Mask:
        if self.entries is None:
            return np.zeros(0, np.bool_)
        mask: Mask = pc.equal(self.entries["content"], EQUALITY_DELETES).combine_chunks().to_numpy(zero_copy_only=False)
        return mask

    @cached_property
    def named(self) -> dict[int, NDArray[np.int64]]:
        """The data files that deletes by position name, by their places; of deletes that may be placed wrong."""
        candidates = np.flatnonzero(self.mixed & ~self.by_value)
        if self.entries is None or not len(candidates):
            return {}
        chosen = self.entries.take(pa.array(candidates))
        about = referenced_files(chosen)
        places = path_indices(self.data.paths, about)
        names = zip(candidates.tolist(), about.is_valid().to_pylist(), places.tolist(), chosen.to_pylist(), strict=True)
        return {at: self._alike(at, np.array([place]) if one else self._places(row)) for at, one, place, row in names}

    def _places(self, entry: Mapping[str, Any]) -> NDArray[np.int64]:
        try:
            read = read_position_deletes(self.paths, entry)
        except (Damaged, Unsupported):
            return _UNREADABLE
        return path_indices(self.data.paths, pc.unique(read["file_path"]))

    def _alike(self, at: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of places, those of live files whose value is, as a float, that of some deletes."""
        if places is _UNREADABLE:
            return places
        live: NDArray[np.int64] = places[places >= 0]
        alike: Mask = _as_float(self._final(self.data.proved)[live]) == _as_float(self.deletes.values[at : at + 1])
        return live[alike]

    def _held(self) -> Doubles:
        """Stored values that no file may leave, because deletes there could not follow."""
        data, deletes = self.data, self.deletes
        mute = data.values[pc.is_null(data.own).to_numpy(zero_copy_only=False)]
        final = self._final(data.proved)
        by_value = np.flatnonzero(self.near & self.by_value & (~deletes.proved | np.isin(deletes.values, mute)))
        by_place = [at for at, files in self.named.items() if files is _UNREADABLE or len(np.unique(final[files])) > 1]
        held: Doubles = np.unique(deletes.values[[*by_value.tolist(), *by_place]])
        return held

    def _final(self, changes: Mask) -> Doubles:
        values: Doubles = np.where(changes, self.data.true, self.data.values)
        return values

    def exact(self) -> Iterator[tuple[str, str, pa.Array]]:
        """What manifests must say: each by its path, the stored name of the field, and a value or null per entry."""
        changes = (*self.data.parts(np.where(self.leaving, self.data.true, np.nan)), *self.deletes.parts(self.moves))
        for one, values in changes:
            at = one.partition_index(self.f.field_id, self.f.name)
            if values.null_count < len(values) and at is not None:
                yield one.manifest.path, one.partitions.type.field(at).name, values

    def findings(self) -> Iterator[Finding]:
        data, deletes = self.data, self.deletes
        for at in np.flatnonzero(data.wrong).tolist():  # one per wrong file
            path, mends = data.paths[at].as_py(), bool(self.leaving[at])
            what = (
                f"{path} has {float(data.true[at])!r} in every row of the column that its partition is taken from, and "
                f"its manifest says {float(data.values[at])!r}: conditions miss its rows"
            )
            if not mends:
                what += (
                    "; rewrite them, by an update of that column to itself with a condition on another column"
                    f"{', for deletes of its partition do not say whose they are' if data.proved[at] else ''}"
                )
            yield Finding(FindingKind.WRONG_PARTITION, what, file=path, repair=_REPAIR if mends else None)
        moves = ~np.isnan(self.moves)
        for at in np.flatnonzero(moves | self.unclear).tolist():  # one per delete file placed wrong
            path = deletes.paths[at].as_py()
            what, repair = f"{path} holds deletes for the partition {float(deletes.values[at])!r}", None
            if moves[at]:
                what += f", and {float(self.moves[at])!r} is the value of the files that they are about"
                repair = "says in the manifest where these files are"
            else:
                what += (
                    ", which is the float of one that files are in: they do not say which, and do not apply there, so "
                    "that rows are back; delete these again"
                )
            yield Finding(FindingKind.WRONG_PARTITION, what, file=path, repair=repair)


_UNREADABLE: NDArray[np.int64] = np.zeros(0, np.int64)


def _joined(arrays: Sequence[pa.Array | None], type_: pa.DataType) -> pa.Array:
    if not arrays:
        return strings([]) if pa.types.is_string(type_) else pa.array([], type_)
    return pa.concat_arrays(arrays)


def _as_float(values: Doubles) -> Doubles:
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32).astype(np.float64)


def _raw(one: ManifestEntries, f: PartitionField) -> pa.Array:
    return one.partition_column(f.field_id, f.name)


def _values(one: ManifestEntries, f: PartitionField) -> pa.Array | None:
    values = one.partition_column(f.field_id, f.name)
    return None if values is None or not pa.types.is_floating(values.type) else values.cast(pa.float64())


def _single(one: ManifestEntries, f: PartitionField, spelled: str) -> pa.Array:
    """The one value that each file has in the column of a field, by its bounds; null where that is not known."""
    low, high = (
        decode_bounds(metric_of(one.entries[name], f.source_id), spelled, _TYPES[spelled]).cast(pa.float64())
        for name in ("lower_bounds", "upper_bounds")
    )
    others = [
        pc.fill_null(pc.greater(metric_of(one.entries[name], f.source_id), 0), False)
        for name in ("null_value_counts", "nan_value_counts")
    ]
    is_one = pc.and_not(pc.fill_null(pc.equal(low, high), False), pc.or_(*others))
    return pc.if_else(is_one, low, pa.scalar(None, pa.float64()))


def _asked(paths: Paths, one: ManifestEntries, f: PartitionField, known: pa.Array, ask: Ask) -> pa.Array:
    """What is known of files, and what those say that have no bounds and a value that may be rounded."""
    values = _raw(one, f).cast(pa.float64()).to_numpy(zero_copy_only=False)
    bare = [pc.is_null(metric_of(one.entries[name], f.source_id)) for name in ("lower_bounds", "nan_value_counts")]
    holds = pc.and_(
        pc.not_equal(one.entries["content"], POSITION_DELETES), pc.equal(one.entries["file_format"], "parquet")
    )
    silent = pc.and_(pc.and_(*bare), holds.combine_chunks()).to_numpy(zero_copy_only=False)
    chosen = np.flatnonzero(silent & (_as_float(values) == values))
    if not len(chosen):
        return known
    wanted = one.entries.select(["file_path", "file_size_in_bytes"]).take(pa.array(chosen)).to_pylist()
    told = known.to_numpy(zero_copy_only=False).copy()
    told[chosen] = [np.nan if value is None else value for value in each(paths.location, ask, wanted)]
    return pa.array(told, mask=np.isnan(told))
