"""Checks the snapshots that branches and tags of an Iceberg table point to, and makes the mutations that repair them.

1. A snapshot that several names point to is checked once. Files that another snapshot has are checked once, too.
2. A branch is repaired by a commit on it; a tag stays as it is, and its findings say so.
3. A row count is corrected where no row id depends on it: in version 2, and where the file has fewer rows than stated.
   Row ids beyond the count of a file belong to others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.iceberg.audit.metadata import HeadChecked, check_head
from holdfast.formats.iceberg.commit.summary import REPAIR
from holdfast.formats.iceberg.metadata.table_metadata import MAIN, TableMetadata
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.model.files import FileTable
from holdfast.model.finding import Finding, FindingKind
from holdfast.model.mutation import AllRows, Mutation
from holdfast.plan.engine import Engine
from holdfast.verbs.maintain.check_files import FilesChecked, check_files, letting_go, stored_files

_TAG_STAYS = "a tag does not change: drop it, or make it anew at a repaired snapshot"
_IDS_OF_OTHERS = (
    "its last rows have row ids that belong to others, so that no repair can count them in: append the rows of the "
    "file anew, move it away, and run check(repair=True, dropMissing=True)"
)


@dataclass(frozen=True)
class BranchHead:
    """A snapshot that branches or tags point to; `files` are None where they cannot be listed."""

    state: IcebergState
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    checked: HeadChecked
    files: FilesChecked | None

    @property
    def is_main(self) -> bool:
        return (not self.tags and not self.branches) or MAIN in self.branches

    @property
    def mark(self) -> int | None:
        """What the mark of row ids must be raised to."""
        return None if self.files is None or self.state.metadata.next_row_id is None else self.files.mark

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """The row counts of files that a repair can put right."""
        if self.files is None:
            return {}
        files = self.state.snapshot.files.among(self.files.counts)
        entries = zip(
            *(files.column(name).to_pylist() for name in ("key", "base_row_id")),
            files.num_records.to_pylist(),
            strict=True,
        )
        free = {key for key, first, stated in entries if first is None or self.files.counts[key] < stated}
        return {key: rows for key, rows in self.files.counts.items() if key in free - self.files.resized}

    def findings(self) -> Iterator[Finding]:
        of_files = () if self.files is None else map(self._repairable, self.files.findings)
        for finding in (*of_files, *self.checked.findings):
            if self.is_main:
                yield finding
            elif self.branches:
                yield replace(finding, what=f"on the branch {', '.join(self.branches)}: {finding.what}")
            else:
                what = f"on the tag {', '.join(self.tags)}: {finding.what}; {_TAG_STAYS}"
                yield replace(finding, what=what, repair=None)

    def _repairable(self, finding: Finding) -> Finding:
        """A finding of files, with the repair that there is for Iceberg."""
        match finding.kind:
            case FindingKind.MISSING_FILE:
                return finding
            case FindingKind.MARK_BELOW_DATA if self.mark is not None:
                return finding
            case FindingKind.WRONG_COUNT if finding.file in self.counts:
                return finding
            case FindingKind.WRONG_COUNT if self.files is not None and finding.file not in self.files.resized:
                return replace(finding, what=f"{finding.what}; {_IDS_OF_OTHERS}", repair=None)
            case _:
                return replace(finding, repair=None)

    def mutation(self, *, drop_missing: bool) -> Mutation | None:
        """What to commit next, on each branch; None: nothing. Files go in a commit of their own."""
        checked, mark, counts = self.checked, self.mark, self.counts
        done = [
            *([f"gave {n} files the partition values that they have"] if (n := checked.tuples.count) else []),
            *([f"put the row counts of {len(counts)} files right"] if counts else []),
            *([f"counted {wrong} manifests anew"] if (wrong := checked.miscounted) else []),
            *(["put the totals of the summary right"] if checked.totals_wrong else []),
            *([f"raised the mark of row ids to {mark}"] if mark is not None else []),
        ]
        if done:
            mutation = Mutation(REPAIR, {"repairs": json.dumps(done)}, mends=True, counts=counts, reads=AllRows())
            return replace(mutation, mark=mark, data_change=checked.tuples.rehides)
        if not drop_missing or self.files is None:
            return None
        return letting_go(self.state.snapshot, self.files.missing)


def heads_of(
    state: IcebergState, spoken_of: pa.Array, engine: Engine[object], *, deep: bool, footers: bool
) -> Iterator[BranchHead]:
    """Check the snapshots of branches and tags, that of the main branch first; `footers` lets it open data files."""
    location = state.snapshot.location
    stored, seen = stored_files(location), pa.array([], pa.string())
    for names in _by_snapshot(state.metadata):
        branches, tags = names
        name = next((one for one in (*branches, *tags) if one != MAIN), MAIN)
        then = state if (not branches and not tags) or MAIN in branches else time_travel(state, version=name)
        checked = check_head(then, footers=footers)
        files = None
        if checked.is_readable:
            own = then.snapshot.files
            names_of = _names(own)
            own = own.filter(pc.invert(pc.is_in(names_of, value_set=seen))) if len(seen) else own
            seen = pa.concat_arrays([seen, names_of])
            referred = spoken_of if then is state else None
            snapshot = replace(then.snapshot, files=own)
            files = check_files(snapshot, referred, engine, then.hidden.load, deep=deep, stored=stored)
        yield BranchHead(then, branches, tags, checked, files)


def _names(files: FileTable) -> pa.Array:
    """What tells files apart, and what hides rows of them."""
    vectors = pc.fill_null(pc.struct_field(files.column("dv").combine_chunks(), "id"), "")
    return pc.binary_join_element_wise(files.column("key").combine_chunks(), vectors, " ")


def _by_snapshot(metadata: TableMetadata) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Branches and tags of each snapshot that some point to, the main branch's first."""
    names_by_snapshot: dict[int, tuple[list[str], list[str]]] = {}
    refs = sorted(metadata.refs.items(), key=lambda named: (named[0] != MAIN, named[1].type != "branch", named[0]))
    for name, ref in refs:
        if metadata.snapshot(ref.snapshot_id) is not None:
            names_by_snapshot.setdefault(ref.snapshot_id, ([], []))[0 if ref.type == "branch" else 1].append(name)
    pairs = [(tuple(branches), tuple(tags)) for branches, tags in names_by_snapshot.values()]
    return pairs if MAIN in metadata.refs else [((), ()), *pairs]
