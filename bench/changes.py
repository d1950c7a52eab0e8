"""Change queries over many commits, side by side with delta-spark's change data feed and with a full diff.

Every commit updates 1 % of the rows, from all over the table, and a compaction comes now and then. There are two tables
with this history: one that tracks rows and nothing else, which Holdfast reads, and one that has a change data feed
besides, which delta-spark reads. All engines must give the same number of changes of each type. A stream is measured by
its one batch, from looking for it to noting it; starting a query is not part of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import changes_tables
import peers
from harness import (
    DATA,
    LIMIT_S,
    NOT_SLOWER,
    OURS,
    Case,
    Engine,
    Goal,
    Report,
    Stopped,
    Took,
    arguments,
    emit,
    machine,
)

FEED, DIFF, OUR_FEED = "delta-spark, feed", "delta-spark, full diff", "ours, feed"
SOURCE, STREAM = "ours, stream source", "ours, streamChanges"
CALLS = {OURS: "changes", OUR_FEED: "feed", FEED: "feed", DIFF: "diff", SOURCE: "source", STREAM: "streamChanges"}
NAMED_COMMITS = 1_000
FEW = 10  # commits of a short stretch


@dataclass(frozen=True, slots=True)
class Size:
    """Rows of the table, commits, rounds after one of warm-up, and time to begin one in."""

    rows: int
    commits: int
    rounds: int
    budget_s: float


SIZES = {
    "quick": Size(50_000, 30, 1, 30),
    "default": Size(200_000, 200, 5, 240),
    "full": Size(500_000, NAMED_COMMITS, 5, 0),
}


@dataclass(frozen=True, slots=True)
class Query:
    """One line of the report: what is asked of how many of the last commits, and by whom."""

    name: str
    commits: int
    kind: str
    engines: tuple[str, ...]


def main() -> None:
    found = peers.enter()
    asked = arguments(__doc__.splitlines()[0], unit="commits").parse_args()
    size = SIZES["quick" if asked.quick else "full" if asked.full else "default"]
    commits = asked.rows or size.commits
    begun = perf_counter()
    made = changes_tables.make(DATA, rows=size.rows, commits=commits)
    made_s = perf_counter() - begun
    queries = list(_queries(commits))
    cases = {query: Case(query.name) for query in queries}
    engines = _Engines(found)
    bytes_read: dict[str, Mapping[str, int]] = {}
    try:
        rounds = _rounds(engines, cases, made, size, bytes_read)
    finally:
        engines.close()
    notes = [
        f"{size.rows:,} rows, {commits:,} commits that update 1 % each, a compaction every {changes_tables.EVERY}"
        + ("" if commits == NAMED_COMMITS else f"; {NAMED_COMMITS:,} commits are --full"),
        f"{rounds} interleaved rounds after one of warm-up; results are counted by type and compared, nothing is kept",
        *(
            f"{name}: " + ", ".join(f"{e} opens {n:,} bytes" for e, n in read.items())
            for name, read in bytes_read.items()
        ),
        f"bytes written for change queries: {made.plain_extra:,} in the table that tracks rows, {made.feed_extra:,} "
        f"change data files in the one with a feed ({made.feed_extra / made.data_bytes:.0%} of its data files)",
        *engines.notes,
        f"making tables took {made_s:.0f} s",
        machine(),
    ]
    emit(
        Report("changes", list(cases.values()), list(_goals(cases, made, bytes_read, commits)), notes),
        as_json=asked.json,
    )


def _queries(commits: int) -> Iterator[Query]:
    last = min(FEW, commits)
    yield Query("full-delta, all commits", commits, "full-delta", (OURS, OUR_FEED, FEED))
    yield Query("full-delta, all commits in one batch of a stream", commits, "full-delta", (OURS, SOURCE, STREAM))
    yield Query(f"full-delta, the last {last}", last, "full-delta", (OURS, OUR_FEED, FEED))
    yield Query("full-delta, the last", 1, "full-delta", (OURS, OUR_FEED, FEED))
    yield Query(f"min-delta, the last {last}", last, "min-delta", (OURS, DIFF))
    yield Query("min-delta, the last", 1, "min-delta", (OURS, DIFF))


class _Engines:
    """Holdfast, and delta-spark where it can be had."""

    def __init__(self, found: peers.Peers) -> None:
        script = Path(__file__).with_name("changes_engines.py")
        self.notes = list(found.notes)
        self._engines = {OURS: Engine([sys.executable, script, OURS], {"PYSPARK_PYTHON": sys.executable})}
        if found.delta is not None:
            jars = ",".join(map(str, found.jars))
            command = [sys.executable, script, "delta-spark", jars]
            self._engines["delta-spark"] = Engine(command, {"PYSPARK_PYTHON": sys.executable})
            self.notes.append(f"delta-spark {found.delta}")
        self.notes.append(f"PySpark {self._engines[OURS].call('version')} for both")

    def run(self, query: Query, made: changes_tables.Made) -> Iterator[tuple[str, Took, int]]:
        """What each engine took, and the bytes it opened; refused where they do not tell the same changes."""
        counts: dict[str, Any] = {}
        last = made.last_commits(query.commits)
        for name in query.engines:
            engine = self._engines.get("delta-spark" if name in (FEED, DIFF) else OURS)
            if engine is None:
                continue
            feed = name in (FEED, OUR_FEED)
            path = made.feed if feed else made.plain
            engine.forget_peak()
            try:
                answer = engine.call(CALLS[name], limit_s=LIMIT_S, path=str(path), start=last[feed], kind=query.kind)
            except Stopped:
                del self._engines["delta-spark"]
                yield name, Took(LIMIT_S, at_least=True), 0
                continue
            counts[name] = json.dumps(answer["counts"], sort_keys=True)
            yield name, Took(answer["seconds"], engine.peak_mb()), answer["bytes"]
        assert len(set(counts.values())) <= 1, f"{query.name}: {counts}"

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()


def _rounds(
    engines: _Engines, cases: dict[Query, Case], made: changes_tables.Made, size: Size, read: dict[str, Any]
) -> int:
    begun = perf_counter()
    number = 0
    while True:
        for query, case in reversed(cases.items()) if number % 2 else cases.items():
            for engine, took, opened in engines.run(query, made):
                print(f"round {number}, {query.name}, {engine}: {took.seconds:.2f} s", file=sys.stderr, flush=True)
                read.setdefault(query.name, {})[engine] = opened
                if number:
                    case.add(engine, took)
        if number >= size.rounds or (number and size.budget_s and perf_counter() - begun > size.budget_s):
            return number
        number += 1


def _goals(
    cases: Mapping[Query, Case], made: changes_tables.Made, read: Mapping[str, Mapping[str, int]], commits: int
) -> Iterator[Goal]:
    by_name = {case.name: case for case in cases.values()}
    note = "" if commits == NAMED_COMMITS else f"measured with {commits:,} commits"
    ratio = by_name["full-delta, all commits"].ratio(FEED)
    yield Goal(
        "full-delta is faster than delta-spark's feed on a merge-on-read table",
        ratio is not None and ratio >= 1,
        ratio,
        note,
    )
    short = [case.ratio(DIFF) for name, case in by_name.items() if name.startswith("min-delta")]
    worst = min((r for r in short if r is not None), default=None)
    yield Goal("a net change is not slower than a full diff", worst is not None and worst >= NOT_SLOWER, worst, note)
    one, all_ = (by_name[name].seconds(OURS) for name in ("full-delta, the last", "full-delta, all commits"))
    grows = None if not one or not all_ else all_ / one / commits
    yield Goal(
        "cost follows the changed rows: all commits cost no more than as many times the last one",
        grows is not None and grows <= 1,
        grows,
        "time of all, over the time of one times their number",
    )
    streamed = by_name["full-delta, all commits in one batch of a stream"]
    for engine, least, goal in (
        (SOURCE, 0.3, "the stream's source has at least 30 % of batch throughput"),
        (STREAM, NOT_SLOWER, "streamChanges has batch throughput"),
    ):
        share = _share(streamed, engine)
        yield Goal(goal, share is not None and share >= least, share, note)
    yield Goal("no bytes are written for change queries", made.plain_extra == 0, float(made.plain_extra))


def _share(case: Case, engine: str) -> float | None:
    """The throughput of an engine over ours in batch."""
    batch, stream = case.seconds(OURS), case.seconds(engine)
    return None if not batch or not stream else batch / stream


if __name__ == "__main__":
    main()
