"""Take 1,000 random rows of one data file by position, in both layouts: by pages, and by the plain reader.

The plain reader decodes the row groups that hold the rows and picks from them, as reading Parquet with Arrow does.
Files are written by our own writer; both read them through a memory map whose pages are in the system's cache. A last
case reads through a store that answers each request after 10 ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Lock
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import DATA, OURS, Case, Goal, Report, Took, arguments, emit, machine
from tables import once

from holdfast.model.write_spec import write_spec
from holdfast.parquet.pages.take import Pick, Taking
from holdfast.parquet.read import FileTask, ReadSpec, StoredColumns, file_columns, output_schema
from holdfast.parquet.write import file_names, write_batches
from holdfast.schema.types import Array, Field, Primitive, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.local import LocalStore
from holdfast.storage.sink import LocalSink

ROWS = {"quick": 200_000, "default": 1_000_000, "full": 5_000_000}
TAKEN = 1000
LENGTH = 64
ROUNDS = 7
PLAIN = "plain reader"
FAR_S = 0.01
MOST_AT_ONCE = 32

_SCHEMA = Struct(
    (Field("id", Primitive("long")), Field("s", Primitive("string")), Field("vec", Array(Primitive("float"))))
)
_COLUMNS = {"all columns": ("id", "s", "vec"), "id and s": ("id", "s"), "vec": ("vec",)}
_STRETCH = 1 << 16


def main() -> None:
    asked = arguments(__doc__.splitlines()[0], unit="rows").parse_args()
    rows = asked.rows or ROWS["quick" if asked.quick else "full" if asked.full else "default"]
    cases, sizes = [], {}
    random = np.random.default_rng(2)
    for layout in ("default", "point"):
        place = once(DATA / f"take-{rows}" / layout, partial(_write, rows=rows, layout=layout))
        files = sorted(place.glob("*.parquet"))
        sizes[layout] = sum(file.stat().st_size for file in files)
        for said, names in _COLUMNS.items():
            case = Case(f"{layout} layout, {said}")
            spec = ReadSpec(tuple(f for f in _SCHEMA.fields if f.name in names))
            for _ in range(ROUNDS + 1):
                picks = _picks(files, random)
                ours, taken = _timed(partial(Taking(spec).rows, picks))
                theirs, read = _timed(partial(_plain, spec, picks))
                assert taken.equals(read), "both readers give the same rows"
                case.add(OURS, Took(ours))
                case.add(PLAIN, Took(theirs))
            for took in case.took.values():
                del took[0]  # the first round warms up
            cases.append(case)
    far, most, requests = _far(sorted((DATA / f"take-{rows}" / "point").glob("*.parquet")), random)
    cases.append(far)
    notes = [
        f"{TAKEN} of {rows} rows, {LENGTH} floats in each vector; default {sizes['default'] >> 20} MB, "
        f"point {sizes['point'] >> 20} MB",
        f"with {FAR_S * 1000:.0f} ms per request: {requests:.0f} requests for all columns, {most} at a time at most",
        machine(),
    ]
    bounded = Goal(f"at most {MOST_AT_ONCE} ranged reads at a time", most <= MOST_AT_ONCE, most)
    emit(Report("take", cases, [*_goals(cases), bounded], notes), as_json=asked.json)


def _goals(cases: list[Case]) -> Iterator[Goal]:
    name, least = "point layout, all columns", 10.0
    figure = next(case for case in cases if case.name == name).ratio(PLAIN)
    yield Goal(f"{name}: at least {least:.0f}x the plain reader", figure is not None and figure >= least, figure)


def _timed(run: Callable[[], pa.Table]) -> tuple[float, pa.Table]:
    start = time.perf_counter()
    made = run()
    return time.perf_counter() - start, made


def _picks(files: list[Path], random: np.random.Generator, store: ObjectStore | None = None) -> list[Pick]:
    """Rows in no order, as many of each file as chance will have it."""
    counts = [pq.read_metadata(file).num_rows for file in files]
    starts = np.cumsum([0, *counts])
    drawn = random.integers(0, starts[-1], TAKEN)
    of_file = np.searchsorted(starts, drawn, side="right") - 1
    return [
        Pick(
            store or LocalStore(),
            str(file)[1:],
            FileTask(str(file), size=file.stat().st_size),
            drawn[of_file == number] - starts[number],
        )
        for number, file in enumerate(files)
    ]


def _plain(spec: ReadSpec, picks: list[Pick]) -> pa.Table:
    """The same rows out of whole row groups."""
    schema, found = output_schema(spec), []
    for pick in picks:
        file = pq.ParquetFile(pa.memory_map(f"/{pick.key}"))
        columns = StoredColumns(file_columns(file), spec, pick.task)
        counts = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        starts = np.cumsum([0, *counts])
        wanted, back = np.unique(pick.positions, return_inverse=True)
        group_of = np.searchsorted(starts, wanted, side="right") - 1
        parts = []
        for group in np.unique(group_of).tolist():
            read = file.read_row_group(group, columns=list(columns.needed))
            parts.append(read.take(pa.array(wanted[group_of == group] - starts[group])))
        rows = pa.concat_tables(parts).take(pa.array(back)).combine_chunks().to_batches()
        found += [columns.output(rows[0], pick.positions, schema)] if rows else []
    return pa.Table.from_batches(found, schema=schema)


class _FarStore(LocalStore):
    """Local files behind a network."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"far://{uuid4()}"
        self.requests, self.under_way, self.most = 0, 0, 0
        self._counting = Lock()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._counting:
            self.requests += 1
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        time.sleep(FAR_S)
        with self._counting:
            self.under_way -= 1
        return super().get_range(key, start, length)


def _far(files: list[Path], random: np.random.Generator) -> tuple[Case, int, float]:
    store = _FarStore()
    case = Case(f"point layout, all columns, {FAR_S * 1000:.0f} ms per request")
    spec = ReadSpec(_SCHEMA.fields)
    Taking(spec).rows(_picks(files, random, store), parallel=MOST_AT_ONCE)
    before = store.requests
    for _ in range(ROUNDS):
        picks = _picks(files, random, store)
        seconds, _ = _timed(partial(Taking(spec).rows, picks, parallel=MOST_AT_ONCE))
        case.add(OURS, Took(seconds))
    return case, store.most, (store.requests - before) / ROUNDS


def _write(place: Path, *, rows: int, layout: str) -> None:
    spec = write_spec(_SCHEMA, (), {"holdfast.layout": layout})
    for _ in write_batches(_batches(rows), spec, LocalSink(str(place)[1:]), file_names(0, uuid4, spec.codec)):
        pass


def _batches(rows: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(1)
    ids = random.permutation(rows)
    for start in range(0, rows, _STRETCH):
        some = ids[start : start + _STRETCH]
        vectors = pa.array(random.random(len(some) * LENGTH, np.float32))
        offsets = pa.array(np.arange(len(some) + 1, dtype=np.int32) * LENGTH)
        texts = pa.array(np.char.mod("name-%016d", some * 7919 % rows))
        columns = [pa.array(some), texts, pa.ListArray.from_arrays(offsets, vectors)]
        yield pa.RecordBatch.from_arrays(columns, ["id", "s", "vec"])


if __name__ == "__main__":
    main()
