"""Checks identity partition values of float and double columns against the files, and computes the exact values.

1. A file whose bounds of a column are equal has one value in it, so another identity partition value is wrong and
   pruning misses the file's rows. The usual cause is a double that was rounded to a float.
2. An exact value is computed only where it is proved: the stored value is the file's value rounded to a float. Position
   deletes follow the data files that they reference, equality deletes their own bounds. Where a manifest has no bounds,
   the footer of the file has them: equal ends in every row group, and no nulls.
3. Deletes apply to files of their own partition, so both move together. Files stay where equality deletes do not tell
   their exact value, or position deletes reference files of two values, because rows would come back otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.iceberg.deletes.reader import read_position_deletes
from holdfast.formats.iceberg.deletes.scope import referenced_files
from holdfast.formats.iceberg.metadata.manifests import DELETES, EQUALITY_DELETES, POSITION_DELETES, ManifestEntries
from holdfast.formats.iceberg.metadata.metrics import metric_of
from holdfast.formats.iceberg.metadata.partition_spec import PartitionField
from holdfast.formats.iceberg.metadata.paths import Paths, path_indices
from holdfast.formats.iceberg.metadata.single_values import decode_bounds
from holdfast.formats.iceberg.metadata.types import type_names
from holdfast.formats.iceberg.state import IcebergState
from holdfast.model.finding import Finding, FindingKind
from holdfast.parquet.pages.footer import columns, read_footer
from holdfast.schema.types import Primitive
from holdfast.storage.arrays import strings
from holdfast.storage.error_mapping import parsing
from holdfast.storage.open import place
from holdfast.storage.prefetch import each

_TYPES = {name: Primitive(name) for name in ("float", "double")}
_REPAIR = "says the exact value in the manifest"
Doubles = NDArray[np.float64]
Mask = NDArray[np.bool_]
ReadValue = Callable[[Mapping[str, Any]], float | None]  # the only value in a file, by its entry


@dataclass(frozen=True, slots=True)
class PartitionCheck:
    """Wrong partition values, and the exact ones."""

    findings: tuple[Finding, ...] = ()
    exact: Mapping[str, Mapping[str, pa.Array]] | None = None  # by manifest, then stored name; null: unchanged
    rehides: bool = False  # whether deletes apply to more files after the change

    @property
    def count(self) -> int:
        """The number of values to change."""
        return sum(len(a) - a.null_count for named in (self.exact or {}).values() for a in named.values())


def check_partition_values(state: IcebergState, *, footers: bool) -> PartitionCheck:
    """Checks the partition values of a snapshot; `footers` allows opening files without bounds in their manifest."""
    spelled = type_names(state.metadata.schema_of(None, state.metadata_path))
    findings: list[Finding] = []
    exact: dict[str, dict[str, pa.Array]] = {}
    rehides = False
    for spec in state.contents.types.specs.values():
        for f in spec.fields:
            if f.transform.kind == "identity" and spelled.get(f.source_id) in _TYPES:
                listed = [one for one in state.contents.listed if one.spec_id == spec.spec_id and len(one)]
                read_value = partial(_only_value, state.paths, field_id=f.source_id) if footers else None
                column = _Column(state.paths, listed, f, spelled[f.source_id], read_value)
                findings += column.findings()
                rehides |= column.rehides
                for path, name, values in column.exact():
                    exact.setdefault(path, {})[name] = values
    return PartitionCheck(tuple(findings), exact, rehides)


class _Side:
    """The entries of data manifests or delete manifests: stored partition values, and those that their bounds give."""

    def __init__(
        self,
        paths: Paths,
        listed: Sequence[ManifestEntries],
        f: PartitionField,
        spelled: str,
        read_value: ReadValue | None,
    ) -> None:
        self.listed = [one for one in listed if _values(one, f) is not None]
        self.paths = _joined([one.entries["file_path"].combine_chunks() for one in self.listed], pa.string())
        self.stored = _joined([_values(one, f) for one in self.listed], pa.float64())
        own = [_single(one, f, spelled) for one in self.listed]
        if read_value is not None:
            own = [_with_footers(paths, one, f, v, read_value) for one, v in zip(self.listed, own, strict=True)]
        self.own = _joined(own, pa.float64())
        wide = [np.full(len(one), pa.types.is_float64(_raw(one, f).type)) for one in self.listed]
        self.values, self.true = (a.to_numpy(zero_copy_only=False) for a in (self.stored, self.own))
        self.wrong: Mask = pc.fill_null(pc.not_equal(self.stored, self.own), False).to_numpy(zero_copy_only=False)
        # A manifest from before a promotion from float to double cannot store the exact value.
        self.proved = self.wrong & (_as_float(self.true) == self.values) & np.concatenate([*wide, np.zeros(0, bool)])

    def parts(self, values: Doubles) -> Iterator[tuple[ManifestEntries, pa.Array]]:
        """Values by manifest, with NaN as null."""
        start = 0
        for one in self.listed:
            part = values[start : start + len(one)]
            yield one, pa.array(part, mask=np.isnan(part))
            start += len(one)


class _Column:
    """One partition field of a spec."""

    def __init__(
        self,
        paths: Paths,
        listed: Sequence[ManifestEntries],
        f: PartitionField,
        spelled: str,
        read_value: ReadValue | None,
    ) -> None:
        self.paths, self.f = paths, f
        self.data, self.deletes = (
            _Side(
                paths, [one for one in listed if (one.manifest.content == DELETES) is removes], f, spelled, read_value
            )
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
        for at, files in self.referenced.items():  # one per delete file that may have another partition than its files
            targets = np.unique(final[files])
            if len(targets) == 1 and targets[0] != deletes.values[at]:
                self.moves[at] = targets[0]
            self.unclear[at] = len(targets) > 1 or files is _UNREADABLE
        for at in np.flatnonzero(self.near & self.by_value).tolist():  # one per equality delete file
            if deletes.proved[at] and not np.isin(deletes.values[at], held):
                self.moves[at] = deletes.true[at]
            elif deletes.true[at] != deletes.values[at]:
                self.unclear[at] = deletes.values[at] not in final
        self.rehides = any(self._rehides(at, final) for at in np.flatnonzero(self.mixed).tolist())

    def _rehides(self, at: int, final: Doubles) -> bool:
        """Whether a delete file applies to more files after the change."""
        stored = self.deletes.values[at]
        files = self.referenced.get(at, np.arange(len(final)))
        now = stored if np.isnan(self.moves[at]) else self.moves[at]
        return bool(((final[files] == now) & (self.data.values[files] != stored)).any())

    @cached_property
    def mixed(self) -> Mask:
        """Deletes whose value, as a float, is stored in two ways."""
        spelled = np.unique(np.concatenate([self.data.values, self._final(self.data.proved), self.deletes.values]))
        floats, counts = np.unique(_as_float(spelled), return_counts=True)
        return np.isin(_as_float(self.deletes.values), floats[counts > 1])

    @cached_property
    def near(self) -> Mask:
        """Deletes whose value is a file's exact value rounded to a float."""
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
    def referenced(self) -> dict[int, NDArray[np.int64]]:
        """The indices of the data files that position deletes in a possibly wrong partition reference."""
        candidates = np.flatnonzero(self.mixed & ~self.by_value)
        if self.entries is None or not len(candidates):
            return {}
        chosen = self.entries.take(pa.array(candidates))
        files = referenced_files(chosen)
        indices = path_indices(self.data.paths, files)
        rows = zip(candidates.tolist(), files.is_valid().to_pylist(), indices.tolist(), chosen.to_pylist(), strict=True)
        return {at: self._alike(at, np.array([i]) if is_one else self._indices(row)) for at, is_one, i, row in rows}

    def _indices(self, entry: Mapping[str, Any]) -> NDArray[np.int64]:
        try:
            read = read_position_deletes(self.paths, entry)
        except (Damaged, Unsupported):
            return _UNREADABLE
        return path_indices(self.data.paths, pc.unique(read["file_path"]))

    def _alike(self, at: int, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The indices of live files whose value, as a float, is that of a delete file."""
        if indices is _UNREADABLE:
            return indices
        live: NDArray[np.int64] = indices[indices >= 0]
        alike: Mask = _as_float(self._final(self.data.proved)[live]) == _as_float(self.deletes.values[at : at + 1])
        return live[alike]

    def _held(self) -> Doubles:
        """Stored values that files must keep, because deletes of that partition could not follow."""
        data, deletes = self.data, self.deletes
        without_bounds = data.values[pc.is_null(data.own).to_numpy(zero_copy_only=False)]
        final = self._final(data.proved)
        by_value = np.flatnonzero(
            self.near & self.by_value & (~deletes.proved | np.isin(deletes.values, without_bounds))
        )
        by_position = [
            at for at, files in self.referenced.items() if files is _UNREADABLE or len(np.unique(final[files])) > 1
        ]
        held: Doubles = np.unique(deletes.values[[*by_value.tolist(), *by_position]])
        return held

    def _final(self, changes: Mask) -> Doubles:
        values: Doubles = np.where(changes, self.data.true, self.data.values)
        return values

    def exact(self) -> Iterator[tuple[str, str, pa.Array]]:
        """The exact values: path of the manifest, stored name of the field, and a value or null per entry."""
        changes = (*self.data.parts(np.where(self.leaving, self.data.true, np.nan)), *self.deletes.parts(self.moves))
        for one, values in changes:
            at = one.partition_index(self.f.field_id, self.f.name)
            if values.null_count < len(values) and at is not None:
                yield one.manifest.path, one.partitions.type.field(at).name, values

    def findings(self) -> Iterator[Finding]:
        data, deletes = self.data, self.deletes
        for at in np.flatnonzero(data.wrong).tolist():  # one per wrong file
            path, is_repairable = data.paths[at].as_py(), bool(self.leaving[at])
            what = (
                f"{path} has {float(data.true[at])!r} in every row of the column that its partition is taken from, and "
                f"its manifest says {float(data.values[at])!r}: conditions miss its rows"
            )
            if not is_repairable:
                what += (
                    "; rewrite them, by an update of that column to itself with a condition on another column"
                    f"{', for deletes of its partition do not say whose they are' if data.proved[at] else ''}"
                )
            yield Finding(FindingKind.WRONG_PARTITION, what, file=path, repair=_REPAIR if is_repairable else None)
        moves = ~np.isnan(self.moves)
        for at in np.flatnonzero(moves | self.unclear).tolist():  # one per delete file in a wrong partition
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
    """The only value of each file in the source column of a field, by its bounds; null where that is not known."""
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


def _with_footers(
    paths: Paths, one: ManifestEntries, f: PartitionField, values: pa.Array, read_value: ReadValue
) -> pa.Array:
    """The only values of files, with those of footers where there are no bounds and the stored value may be rounded."""
    stored = _raw(one, f).cast(pa.float64()).to_numpy(zero_copy_only=False)
    no_bounds = [pc.is_null(metric_of(one.entries[name], f.source_id)) for name in ("lower_bounds", "nan_value_counts")]
    has_column = pc.and_(
        pc.not_equal(one.entries["content"], POSITION_DELETES), pc.equal(one.entries["file_format"], "parquet")
    )
    unknown = pc.and_(pc.and_(*no_bounds), has_column.combine_chunks()).to_numpy(zero_copy_only=False)
    chosen = np.flatnonzero(unknown & (_as_float(stored) == stored))
    if not len(chosen):
        return values
    entries = one.entries.select(["file_path", "file_size_in_bytes"]).take(pa.array(chosen)).to_pylist()
    completed = values.to_numpy(zero_copy_only=False).copy()
    completed[chosen] = [
        np.nan if value is None else value for value in each(paths.location.store, read_value, entries)
    ]
    return pa.array(completed, mask=np.isnan(completed))


def _only_value(paths: Paths, entry: Mapping[str, Any], field_id: int) -> float | None:
    """The only number in a column of a file, by its footer; None: there are several, or the file cannot be read."""
    store, key = place(paths.location, paths.key(entry["file_path"]))
    try:
        with parsing(entry["file_path"], "cannot be read as Parquet"):
            footer = read_footer(store, key, entry["file_size_in_bytes"])
            nodes = columns(footer.schema.to_arrow_schema())
            leaf = next((node.leaf for node in nodes if node.field_id == field_id and not node.children), None)
            return None if leaf is None else _only_statistic(footer, leaf)
    except (Damaged, Unsupported):
        return None


def _only_statistic(footer: pq.FileMetaData, leaf: int) -> float | None:
    ends: set[float] = set()
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(leaf).statistics
        if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
            return None
        ends |= {statistics.min, statistics.max}
    only = ends.pop() if len(ends) == 1 else None
    return only if isinstance(only, float) else None
