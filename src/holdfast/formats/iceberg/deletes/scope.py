"""Decides which delete files apply to which data files.

1. A deletion vector applies to the data file that it references. A position delete file applies to the one it
   references, or to the files of its partition, unless they have a deletion vector. In both cases the sequence number
   of the deletes is not below that of the data file.
2. An equality delete file applies to data files with a smaller sequence number in its partition, or in all partitions
   if its spec is unpartitioned.
3. A data file has at most one deletion vector; deletes that reference a data file of another partition contradict the
   table. Both are Damaged.
4. All functions work on columns, in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.iceberg.metadata.manifests import ENTRIES, EQUALITY_DELETES, POSITION_DELETES, ManifestEntries
from holdfast.formats.iceberg.metadata.metrics import metric_of
from holdfast.formats.iceberg.metadata.partition_spec import PartitionSpec
from holdfast.formats.iceberg.metadata.paths import match_paths
from holdfast.model.files import DV

PUFFIN, POSITIONS = "puffin", "positions"  # how hidden positions are stored
FILE_PATH_ID = 2147483546  # of `file_path` in position delete files
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class DeleteFiles:
    """The delete files of a snapshot: the columns of ENTRIES, then spec_id, group and everywhere."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def by_position(self) -> pa.Table:
        """Deletion vectors and position delete files."""
        return self.table.filter(self._holds(POSITION_DELETES))

    @property
    def vectors(self) -> pa.Table:
        return self.table.filter(pc.and_(self._holds(POSITION_DELETES), self._is_puffin()))

    @property
    def positions(self) -> pa.Table:
        return self.table.filter(pc.and_(self._holds(POSITION_DELETES), pc.invert(self._is_puffin())))

    @property
    def equality(self) -> pa.Table:
        return self.table.filter(self._holds(EQUALITY_DELETES))

    def _holds(self, content: int) -> pa.ChunkedArray:
        return pc.equal(self.table["content"], content)

    def _is_puffin(self) -> pa.ChunkedArray:
        return pc.equal(self.table["file_format"], PUFFIN)


def delete_files(
    listed: Sequence[ManifestEntries], groups: Sequence[NDArray[np.int64]], specs: Mapping[int, PartitionSpec]
) -> DeleteFiles:
    """The entries of all delete manifests."""
    tables = []
    for one, group in zip(listed, groups, strict=True):
        count = len(one)
        tables.append(
            one.entries.append_column("spec_id", pa.array(np.full(count, one.spec_id, np.int32)))
            .append_column("group", pa.array(group))
            .append_column("everywhere", pa.array(np.full(count, specs[one.spec_id].is_unpartitioned)))
        )
    if tables:
        return DeleteFiles(pa.concat_tables(tables))
    extra = [("spec_id", pa.int32()), ("group", pa.int64()), ("everywhere", pa.bool_())]
    return DeleteFiles(pa.schema([*ENTRIES, *(pa.field(n, t) for n, t in extra)]).empty_table())


def referenced_files(positions: pa.Table) -> pa.Array:
    """The data file that each position delete file references, by name or by equal bounds; null: several files."""
    low = metric_of(positions["lower_bounds"], FILE_PATH_ID)
    high = metric_of(positions["upper_bounds"], FILE_PATH_ID)
    single = pc.if_else(pc.equal(low, high), low, pa.scalar(None, pa.binary())).cast(pa.string())
    return pc.coalesce(positions["referenced_data_file"].combine_chunks(), single)


def dv_column(files: pa.Table, deletes: DeleteFiles, *, at: int | None, where: str) -> pa.Array:
    """The `dv` of every data file: its deletion vector, or a mark that position deletes of snapshot `at` may apply."""
    vectors = _vectors(files, deletes.vectors, where)
    if not (positions := deletes.positions).num_rows:
        return vectors
    mark = pa.scalar({"id": f"{POSITIONS} of {at}", "storage": POSITIONS, "offset": at}, DV)
    by_position = pc.if_else(pa.array(_have_position_deletes(files, positions, where)), mark, pa.scalar(None, DV))
    return pc.if_else(pc.is_valid(vectors), vectors, by_position)


def _vectors(files: pa.Table, vectors: pa.Table, where: str) -> pa.Array:
    if not vectors.num_rows:
        return pa.nulls(files.num_rows, DV)
    _check_descriptors(vectors)
    matches = match_paths(files["path"].combine_chunks(), vectors["referenced_data_file"].combine_chunks())
    _check_same_partition(files, vectors, matches, where)
    by_file = np.full(files.num_rows, -1, np.int64)
    for f, v in _in_time(files, vectors, matches):  # one per vector
        if by_file[f] >= 0:
            path = files["path"][f].as_py()
            raise Damaged(f"two deletion vectors of {where} are for {path}: a file has at most one", path=path)
        by_file[f] = v
    matched = vectors.take(pa.array(by_file, mask=by_file < 0))
    offsets = matched["content_offset"].combine_chunks()
    paths = matched["file_path"].combine_chunks()
    parts = [
        pc.binary_join_element_wise(paths, offsets.cast(pa.string()), "@"),
        pc.if_else(pa.array(by_file >= 0), PUFFIN, pa.scalar(None, pa.string())),
        paths,
        offsets,
        matched["content_size_in_bytes"].combine_chunks(),
        matched["record_count"].combine_chunks(),
    ]
    return pa.StructArray.from_arrays(parts, fields=list(DV), mask=pa.array(by_file < 0))


def _check_descriptors(vectors: pa.Table) -> None:
    for name in ("referenced_data_file", "content_offset", "content_size_in_bytes"):
        if vectors[name].null_count:
            path = vectors["file_path"][pc.index(pc.is_null(vectors[name]), True).as_py()].as_py()
            raise Damaged(f"the manifest entry of the deletion vector in {path} has no {name}", path=path)


def _have_position_deletes(files: pa.Table, positions: pa.Table, where: str) -> NDArray[np.bool_]:
    """Which data files some position delete file may apply to."""
    referenced = referenced_files(positions)
    of_one_file = positions.filter(pc.is_valid(referenced))
    affected = np.zeros(files.num_rows, np.bool_)
    if of_one_file.num_rows:
        matches = match_paths(files["path"].combine_chunks(), referenced.drop_null())
        _check_same_partition(files, of_one_file, matches, where)
        affected[[f for f, _ in _in_time(files, of_one_file, matches)]] = True
    of_partition = positions.filter(pc.is_null(referenced))
    if of_partition.num_rows:
        affected |= _numbers(files, "sequence") <= _newest_by_group(of_partition, _numbers(files, "group"))
    return affected


def have_equality_deletes(files: pa.Table, deletes: DeleteFiles) -> NDArray[np.bool_]:
    """Which data files some equality delete applies to."""
    affected = np.zeros(files.num_rows, np.bool_)
    equality, sequences = deletes.equality, _numbers(files, "sequence")
    far, near = equality.filter(equality["everywhere"]), equality.filter(pc.invert(equality["everywhere"]))
    if far.num_rows:
        affected |= sequences < int(pc.max(far["sequence_number"]).as_py())
    if near.num_rows:
        affected |= sequences < _newest_by_group(near, _numbers(files, "group"))
    return affected


def dangling(files: pa.Table, deletes: DeleteFiles) -> pa.Array:
    """The paths of delete files that reference no single data file and apply to none of these files."""
    by_value = pc.equal(deletes.table["content"], EQUALITY_DELETES)
    several = deletes.table.filter(pc.or_(by_value, pc.is_null(referenced_files(deletes.table))))
    stamps, own = _numbers(several, "sequence_number"), _numbers(several, "group")
    sequences, groups = _numbers(files, "sequence"), _numbers(files, "group")
    oldest = np.full(int(max(groups.max(initial=-1), own.max(initial=-1))) + 1, _NEVER, np.int64)
    np.minimum.at(oldest, groups, sequences)
    everywhere = several["everywhere"].to_numpy() & pc.equal(several["content"], EQUALITY_DELETES).to_numpy()
    reached = np.where(everywhere, sequences.min(initial=_NEVER), oldest[own])
    # An equality delete applies to older rows only, a position delete also to rows of its own commit.
    last = stamps - pc.equal(several["content"], EQUALITY_DELETES).to_numpy()
    return several["file_path"].combine_chunks().filter(pa.array(reached > last))


def equality_sets(deletes: DeleteFiles) -> list[tuple[tuple[int, ...], bool, pa.Table]]:
    """Equality delete files by compared columns and reach: field ids, whether they apply everywhere, and the files."""
    equality = deletes.equality
    if not equality.num_rows:
        return []
    if (formats := set(equality["file_format"].to_pylist())) - {"parquet", "orc"}:
        raise Unsupported(f"the table has equality deletes in {', '.join(sorted(formats))} files, which are not read")
    groups: dict[tuple[tuple[int, ...], bool], list[int]] = {}
    rows = zip(equality["equality_ids"].to_pylist(), equality["everywhere"].to_pylist(), strict=True)
    for at, (ids, everywhere) in enumerate(rows):  # one per delete file
        if not ids:
            path = equality["file_path"][at].as_py()
            raise Damaged(f"the equality delete file {path} does not say which columns it compares", path=path)
        groups.setdefault((tuple(sorted(ids)), everywhere), []).append(at)
    return [(ids, everywhere, equality.take(pa.array(at))) for (ids, everywhere), at in groups.items()]


def _newest_by_group(deletes: pa.Table, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """The highest sequence number among deletes in the partition of each file; -1 where there is none."""
    own = _numbers(deletes, "group")
    newest = np.full(int(max(groups.max(initial=-1), own.max(initial=-1))) + 1, -1, np.int64)
    np.maximum.at(newest, own, _numbers(deletes, "sequence_number"))
    return newest[groups]


def _in_time(files: pa.Table, deletes: pa.Table, matches: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    sequences, stamps = _numbers(files, "sequence"), _numbers(deletes, "sequence_number")
    return [(f, d) for f, d in matches if sequences[f] <= stamps[d]]


def _check_same_partition(files: pa.Table, deletes: pa.Table, matches: Sequence[tuple[int, int]], where: str) -> None:
    mine, theirs = _numbers(files, "group"), _numbers(deletes, "group")
    for f, d in matches:
        if mine[f] != theirs[d]:
            path, delete = files["path"][f].as_py(), deletes["file_path"][d].as_py()
            raise Damaged(
                f"the deletes in {delete} are for {path}, but {where} has the two in different partitions", path=delete
            )


def _numbers(table: pa.Table, name: str) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = table[name].combine_chunks().to_numpy(zero_copy_only=False)
    return numbers
