"""The scalar index kinds: entries sorted by key (btree), and bitmaps for keys with few values.

    entries   key -> (row id, row commit version), one entry per row
    bitmap    (key, row commit version) -> a set of row ids

1. Every row is indexed, also one whose key is null.
2. Small indexes are built in this process, large ones by Spark if there is a session.
3. Merging reads segments key range by key range, so that its memory is bounded, and drops entries that are dead in the
   snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.engines.local.indexing import indexed_rows
from holdfast.errors import Invalid, TableError
from holdfast.index.kinds import Site
from holdfast.index.reader import PinnedReader
from holdfast.index.registry import Index, IndexDefinition, SegmentRef, directory_of, fields_of
from holdfast.index.scalar.entries import TOP, BlockCache, Segment
from holdfast.index.scalar.query import KeyQuery
from holdfast.index.scalar.verify import contradicting, expanded, lacking
from holdfast.index.segment import FileSum, Meta, SegmentWriting, put_meta
from holdfast.index.tail import Tail
from holdfast.model.snapshot import Snapshot
from holdfast.parquet.index_runs import RUN_ROWS, EntryRun, bitmap_run, entry_runs
from holdfast.plan.indexing import IndexedFiles, IndexedRows
from holdfast.predicate.parse import compares_as_stored
from holdfast.rows.keys import Interval, Numbers, is_keyable
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import Field

ENTRIES, BITMAP = "btree", "bitmap"
LOCAL_ROWS = 1 << 20  # up to here this process builds a segment faster than Spark starts a job
SORTED_ROWS = 1 << 24  # sorted at once without Spark
_BLOCKS = "holdfast.index.blocks"
_SEGMENTS = "holdfast.index.segments"
_SAMPLE = 10_000


@dataclass(frozen=True)
class _WrittenRun:
    name: str
    sum: FileSum
    entries: int
    low_id: int
    high_id: int
    top: pa.Table


@dataclass(frozen=True)
class ScalarKind:
    name: str = ENTRIES
    local_rows: int = LOCAL_ROWS

    @property
    def is_bitmap(self) -> bool:
        return self.name == BITMAP

    def define(self, snapshot: Snapshot, fields: Sequence[Field], params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Any column with comparable values can be a key."""
        if params:
            raise Invalid(f"an index of kind {self.name!r} has no option {', '.join(sorted(params))}")
        for f in fields:
            if not is_keyable(arrow_type(f.type)):
                raise Invalid(
                    f"the column {f.name} cannot be indexed: values of {arrow_type(f.type)} have no order here"
                )
            if not compares_as_stored(f):
                raise Invalid(f"the column {f.name} cannot be indexed: it has a collation or a fixed length")
        return {}

    def build(
        self, site: Site, definition: IndexDefinition, parts: Sequence[IndexedFiles], before: Sequence[SegmentRef]
    ) -> Sequence[SegmentRef]:
        """One segment with an entry for each row; none without rows."""
        fields = fields_of(definition, site.snapshot)
        assert fields is not None, "an index is built on columns that are there"
        counts = [n for part in parts for n in part.files.num_records.to_pylist()]
        most = sum(n or 0 for n in counts)
        uuid = str(site.env.new_uuid())
        directory = directory_of(definition.name, uuid)
        with SegmentWriting(site.snapshot.location) as writing:
            if site.workers is not None and (most > self.local_rows or None in counts):
                rows = IndexedRows(site.snapshot, parts, fields)
                runs = _written(site.workers.write_runs(rows, directory, most, bitmaps=self.is_bitmap))
            else:
                runs = _stored(writing, directory, self._local_runs(site.snapshot, parts, fields))
            segment = self._completed(site, uuid, directory, runs, writing)
        return () if segment is None else (segment,)

    def merge(
        self, site: Site, definition: IndexDefinition, segments: Sequence[SegmentRef], reader: PinnedReader
    ) -> SegmentRef | None:
        """One segment that replaces several, without dead entries."""
        opened = [segment_of(reader, ref, definition) for ref in segments]
        count = len(definition.columns)
        if self.is_bitmap:
            tables = (_live(expanded(block, count), reader, count) for s in opened for block in s.blocks())
            one = bitmap_run(tables, count)
            runs: Iterable[EntryRun] = () if one is None else (one,)
        else:
            runs = (run for rows in _ranges(opened) for run in entry_runs(_live(rows, reader, count), count))
        uuid = str(site.env.new_uuid())
        directory = directory_of(definition.name, uuid)
        with SegmentWriting(site.snapshot.location) as writing:
            return self._completed(site, uuid, directory, _stored(writing, directory, runs), writing)

    def outgrown(self, index: Index) -> str | None:
        """Never: entries can always be added."""
        return None

    def stats(self, index: Index, reader: PinnedReader, *, sample: int | None) -> Mapping[str, Any]:
        """The share of dead entries, from a sample of each segment."""
        dead = sampled = 0
        for ref in index.segments:
            for ids, versions in _sampled(segment_of(reader, ref, index.definition), sample or _SAMPLE):
                located = reader.locate(ids)
                dead += int((located.versions != versions).sum())
                sampled += len(ids)
        return {"dead_share": dead / sampled if sampled else 0.0}

    def verify(
        self, site: Site, index: Index, reader: PinnedReader, tail: Tail, *, sample: int | None
    ) -> Sequence[str]:
        """Checks checksums, entries against their rows, and rows against their entries."""
        fields = fields_of(index.definition, site.snapshot)
        assert fields is not None, "what is verified fits the table"
        wrong: list[str] = []
        opened = []
        for ref in index.segments:
            try:
                segment = Segment(site.snapshot.location, ref, [arrow_type(f.type) for f in fields], BlockCache())
                segment.check()
                if segment.entries != ref.entries:
                    wrong.append(f"{ref.directory} has {segment.entries} entries, not {ref.entries}")
                wrong += contradicting(segment, reader, fields, sample)
                opened.append(segment)
            except TableError as error:
                wrong.append(str(error))
        return wrong or list(lacking(opened, site, tail, fields, sample))

    def _local_runs(
        self, snapshot: Snapshot, parts: Sequence[IndexedFiles], fields: Sequence[Field]
    ) -> Iterator[EntryRun]:
        rows = (
            table
            for part in parts
            for table in indexed_rows(snapshot, part.files, part.hidden, fields, part.newer_than)
            if table.num_rows
        )
        if self.is_bitmap:
            one = bitmap_run(rows, len(fields))
            yield from () if one is None else (one,)
            return
        for held in _gathered(rows, SORTED_ROWS):
            yield from entry_runs(held, len(fields))

    def _completed(
        self, site: Site, uuid: str, directory: str, runs: Sequence[_WrittenRun], writing: SegmentWriting
    ) -> SegmentRef | None:
        """Write the top level and the `meta.json`; None without runs."""
        if not runs:
            return None
        tops = [
            run.top.set_column(0, "run", pa.array(np.full(run.top.num_rows, number))) for number, run in enumerate(runs)
        ]
        sink = pa.BufferOutputStream()
        pq.write_table(pa.concat_tables(tops), sink, compression="zstd")
        top = writing.put(directory, TOP, sink.getvalue().to_pybytes())
        meta = Meta(
            self.name,
            uuid,
            site.snapshot.version,
            sum(run.entries for run in runs),
            min(run.low_id for run in runs),
            max(run.high_id for run in runs),
            {TOP: top, **{run.name: run.sum for run in runs}},
            {"runs": [run.name for run in runs]},
        )
        return put_meta(directory, meta, writing)


def _written(runs: pa.Table) -> list[_WrittenRun]:
    """What workers wrote."""
    return [
        _WrittenRun(
            run["name"],
            FileSum(run["size"], run["crc"], {"footer": run["footer"]}),
            run["entries"],
            run["low_id"],
            run["high_id"],
            pa.ipc.open_stream(run["top"]).read_all(),
        )
        for run in runs.to_pylist()  # one per run
    ]


def _stored(writing: SegmentWriting, directory: str, runs: Iterable[EntryRun]) -> list[_WrittenRun]:
    written = []
    for number, run in enumerate(runs):
        name = f"run-{number:05}.parquet"
        sums = writing.put(directory, name, run.data)
        sums = FileSum(sums.bytes, sums.crc, {"footer": run.footer})
        written.append(_WrittenRun(name, sums, run.entries, run.low_id, run.high_id, run.top))
    return written


def segment_of(reader: PinnedReader, ref: SegmentRef, definition: IndexDefinition) -> Segment:
    """An open segment, cached with the reader."""
    fields = fields_of(definition, reader.snapshot)
    assert fields is not None, "what is opened fits the table"
    blocks = reader.memory.setdefault(_BLOCKS, BlockCache())
    segments: dict[str, Segment] = reader.memory.setdefault(_SEGMENTS, {})
    name = f"{ref.directory}#{ref.checksum}"
    if name not in segments:
        segments[name] = Segment(reader.snapshot.location, ref, [arrow_type(f.type) for f in fields], blocks)
    return segments[name]


def _live(rows: pa.Table, reader: PinnedReader, keys: int) -> pa.Table:
    """The valid entries."""
    located = reader.locate(rows.column(keys).to_numpy())
    return rows.filter(pa.array(located.versions == rows.column(keys + 1).to_numpy()))


def _ranges(segments: Sequence[Segment]) -> Iterator[pa.Table]:
    """The entries of several segments by key range, null first."""
    firsts: list[tuple[Any, int]] = sorted(
        (pair for s in segments for pair in zip(*s.boundaries(), strict=True)), key=lambda pair: pair[0]
    )
    pivots: list[Any] = []
    held = 0
    for key, entries in firsts:  # one per block
        if held >= RUN_ROWS and (not pivots or key > pivots[-1]):
            pivots.append(key)
            held = 0
        held += entries
    ends = [None, *pivots, None]
    for number, (low, high) in enumerate(pairwise(ends)):
        query = KeyQuery(intervals=(Interval(low, high),), null=number == 0)
        tables = [table for s in segments for table in s.find(query).tables()]
        if tables:
            yield pa.concat_tables(tables)


def _gathered(tables: Iterable[pa.Table], most: int) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(one.num_rows for one in held) >= most:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _sampled(segment: Segment, count: int) -> Iterator[tuple[Numbers, Numbers]]:
    """About `count` entries, spread over a segment."""
    step = max(1, segment.entries // count)
    for block in segment.blocks():
        hits = block.hits(0, block.table.num_rows)
        yield hits.ids[::step], hits.versions[::step]
