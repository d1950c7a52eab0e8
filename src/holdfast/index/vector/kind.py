"""The vector index kind: trains a quantizer on a sample, and builds segments of encoded vectors.

    rows  ->  a sample  ->  a trained quantizer, shared by all segments of a generation  ->  segments of entries

1. Later rows are added to the current generation; only a rebuild trains again.
2. A generation is outgrown if many later vectors lie far from those it was trained on, or if it began with few rows and
   has many now. Then a refresh rebuilds the index.
3. Small indexes are built in this process, large ones by Spark if there is a session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from holdfast.errors import Invalid
from holdfast.index.kinds import Site
from holdfast.index.reader import PinnedReader
from holdfast.index.registry import DIRECTORY, Index, IndexDefinition, SegmentRef, directory_of, fields_of
from holdfast.index.segment import FileSum, Meta, SegmentWriting, put_file, put_meta
from holdfast.index.tail import Tail
from holdfast.index.vector.coder import Trained
from holdfast.index.vector.column import odd_lengths, refuse_no_vectors
from holdfast.index.vector.fill import Filler, WrittenSegment
from holdfast.index.vector.library import library
from holdfast.index.vector.opened import QUANTIZER, opened, quantizer_of, trained_of
from holdfast.index.vector.options import FLAT_ROWS, VECTOR, Method, VectorOptions
from holdfast.index.vector.rows import LocalVectorRows
from holdfast.index.vector.train import sample_rows, train
from holdfast.index.vector.verify import contradicting, lacking
from holdfast.index.vector.worker_rows import WorkerVectorRows
from holdfast.model.snapshot import Snapshot
from holdfast.plan.indexing import IndexedFiles
from holdfast.schema.types import Field

LOCAL_ROWS = 1 << 18  # up to here this process builds a segment faster than Spark starts a job
DRIFT = 1.2  # times the mean distance to centres in training
DRIFTED_SHARE = 0.1  # of entries added after training, from which on drift counts
_SAMPLE = 10_000


@dataclass(frozen=True)
class VectorKind:
    local_rows: int = LOCAL_ROWS

    def define(self, snapshot: Snapshot, fields: Sequence[Field], params: Mapping[str, Any]) -> Mapping[str, Any]:
        """One column of float or double arrays."""
        if len(fields) != 1:
            raise Invalid(f"a vector index is about one column, not {len(fields)}: {', '.join(f.name for f in fields)}")
        refuse_no_vectors(fields[0])
        options = VectorOptions.of(params)
        if options.method is not Method.FLAT:
            library()
        return options.params

    def build(
        self, site: Site, definition: IndexDefinition, parts: Sequence[IndexedFiles], before: Sequence[SegmentRef]
    ) -> Sequence[SegmentRef]:
        """Segments with an entry for each row that has a vector."""
        (column,) = _columns(definition, site.snapshot)
        counts = [part.files.num_records for part in parts]
        rows = sum(pc.sum(count).as_py() or 0 for count in counts)
        unknown = any(count.null_count for count in counts)
        workers = site.workers if rows > self.local_rows or unknown else None
        source: LocalVectorRows | WorkerVectorRows = LocalVectorRows(site.snapshot, column, parts)
        if workers is not None:
            source = WorkerVectorRows(workers, site.snapshot, column, parts)
        if before:
            trained, shared = trained_of(before[-1]), _shared(before[-1])
            quantizer = quantizer_of(site.snapshot.location, before[-1]) if shared and workers is None else b""
        else:
            options = VectorOptions.kept(definition.params)
            seed = site.env.rng.getrandbits(32)
            sample = source.sample(1, rows, seed)
            count = sample_rows(options, rows, sample.matrix.shape[1]) if len(sample.matrix) else 1
            sample = source.sample(count, rows, seed) if count > 1 else sample
            if sample.odd:
                raise odd_lengths(column.name, sample.odd, sample.matrix.shape[1])
            if not len(sample.matrix):
                return ()
            trained, quantizer = train(sample.matrix, options, rows)
            shared = self._put_quantizer(site, definition, quantizer)
        directory = f"{DIRECTORY}/{definition.name}"
        with SegmentWriting(site.snapshot.location) as writing:
            if isinstance(source, WorkerVectorRows):
                key = None if shared is None else f"{shared['directory']}/{QUANTIZER}"
                written, odd = source.fill(trained, key, directory)
            else:
                written, odd = source.fill(trained, quantizer, directory, site.env.new_uuid, writing)
            if odd:
                raise odd_lengths(column.name, odd, trained.length)
            late = bool(before)
            return tuple(self._completed(site, one, trained, shared, writing, late=late) for one in written)

    def merge(
        self, site: Site, definition: IndexDefinition, segments: Sequence[SegmentRef], reader: PinnedReader
    ) -> SegmentRef | None:
        """One segment that replaces several, without dead entries."""
        trained, shared = trained_of(segments[0]), _shared(segments[0])
        filler = Filler(trained, quantizer_of(site.snapshot.location, segments[0]))
        for ref in segments:
            segment = opened(reader, ref)
            live, coded = segment.live(reader), segment.coded
            if segment.coder is not None:
                away = float(ref.extra.get("away", 0.0))
                filler.adopt(segment.coder, segment.ids[:coded], segment.versions[:coded], live[:coded], away)
            kept = live[coded:]
            filler.keep(segment.flat[kept], segment.ids[coded:][kept], segment.versions[coded:][kept])
        filled = filler.finish()
        if filled is None:
            return None
        directory = directory_of(definition.name, str(site.env.new_uuid()))
        late = sum(ref.entries for ref in segments if ref.extra.get("late")) * 2 > sum(ref.entries for ref in segments)
        with SegmentWriting(site.snapshot.location) as writing:
            for name, data in filled.files.items():
                writing.put(directory, name, data)
            return self._completed(site, filled.written(directory), trained, shared, writing, late=late)

    def outgrown(self, index: Index) -> str | None:
        """Why a refresh should rebuild the index; None if it should not."""
        if not index.segments:
            return None
        trained = trained_of(index.segments[-1])
        options = VectorOptions.kept(index.definition.params)
        if trained.method is not options.method_for(index.entries) and index.entries > 2 * FLAT_ROWS:
            return f"it was begun with few rows and has {index.entries}"
        late = [ref for ref in index.segments if ref.extra.get("late")]
        count = sum(ref.entries for ref in late)
        if trained.method.has_lists and count > DRIFTED_SHARE * index.entries:
            away = sum(ref.entries * float(ref.extra.get("away", 0.0)) for ref in late) / count
            if away > DRIFT * trained.spread:
                return (
                    f"vectors that came since it was trained lie {away:.3g} from the centres of their lists, and those "
                    f"it was trained on {trained.spread:.3g}"
                )
        return None

    def stats(self, index: Index, reader: PinnedReader, *, sample: int | None) -> Mapping[str, Any]:
        """How vectors are stored, and the share of dead entries from a sample of each segment."""
        if not index.segments:
            return {"dead_share": 0.0, "method": None}
        dead = sampled = 0
        for ref in index.segments:
            segment = opened(reader, ref)
            chosen = np.arange(0, len(segment), max(1, len(segment) // (sample or _SAMPLE)))
            dead += int((~segment.locate(chosen, reader)[1]).sum())
            sampled += len(chosen)
        trained = trained_of(index.segments[-1])
        stats = {"method": trained.method.value, "metric": trained.metric.value, "length": trained.length}
        if trained.method.has_lists:
            stats |= {"lists": trained.lists, "probes": trained.probes}
        flat = sum(int(ref.extra.get("flat", 0)) for ref in index.segments)
        if (shared := _shared(index.segments[-1])) is not None:
            stats["quantizer_bytes"] = shared["bytes"]
        return stats | {"flat": flat, "dead_share": dead / sampled, "outgrown": self.outgrown(index)}

    def verify(
        self, site: Site, index: Index, reader: PinnedReader, tail: Tail, *, sample: int | None
    ) -> Sequence[str]:
        """Checks checksums, entries against their rows, and rows against their entries."""
        (column,) = _columns(index.definition, site.snapshot)
        wrong = list(contradicting(index, reader, column, sample))
        return wrong or list(lacking(index, site, tail, column, sample))

    def _put_quantizer(self, site: Site, definition: IndexDefinition, quantizer: bytes) -> dict[str, Any] | None:
        if not quantizer:
            return None
        directory = directory_of(definition.name, str(site.env.new_uuid()))
        sums = put_file(site.snapshot.location, directory, QUANTIZER, quantizer)
        return {"directory": directory, "bytes": sums.bytes, "crc": sums.crc}

    def _completed(
        self,
        site: Site,
        written: WrittenSegment,
        trained: Trained,
        shared: Mapping[str, Any] | None,
        writing: SegmentWriting,
        *,
        late: bool,
    ) -> SegmentRef:
        """Write the `meta.json` of a segment."""
        extra = {"trained": trained.json(), "flat": written.flat, "away": written.away, "late": late}
        if shared is not None:
            extra |= {"quantizer": dict(shared), "directories": [shared["directory"]]}
        files = {name: FileSum(size, crc) for name, (size, crc) in written.files.items()}
        uuid = written.directory.rpartition("/")[2]
        meta = Meta(VECTOR, uuid, site.snapshot.version, written.entries, written.low_id, written.high_id, files)
        return put_meta(written.directory, meta, writing, extra)


def _columns(definition: IndexDefinition, snapshot: Snapshot) -> tuple[Field, ...]:
    fields = fields_of(definition, snapshot)
    assert fields is not None, "an index is built on columns that are there"
    return fields


def _shared(ref: SegmentRef) -> Mapping[str, Any] | None:
    return ref.extra.get("quantizer")
