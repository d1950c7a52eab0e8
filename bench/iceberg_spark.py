"""Metadata columns of Iceberg tables on Spark: a scan that asks for nothing else reads no column.

A table of `--rows` rows, 1 % of them deleted by deletion vectors, is asked for `_file`, `_pos` and `_row_id` of every
row, which are added up; and for these and columns beside them. A copy of the table whose files have lost every column
chunk, and kept their footers, must give the same sums. Bytes are all that Spark's process reads, the vectors that it is
sent among them; files are in the system's cache.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import iceberg
from harness import DATA, OURS, Case, Goal, Report, Took, arguments, emit, machine
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tables import once

import holdfast
from holdfast import IcebergTable

ROWS = {"quick": 400_000, "default": 20_000_000, "full": 20_000_000}
ROUNDS = 3
ASKED = ["_file", "_pos", "_row_id"]
ONE_MORE, WHOLE = "with a column", "with all columns"


def main() -> None:
    asked = arguments(__doc__.splitlines()[0], unit="rows the table has").parse_args()
    rows = asked.rows or ROWS["quick" if asked.quick else "default"]
    place = once(DATA / f"iceberg-{rows}-v3", partial(iceberg.write, rows=rows, version=3))
    data = sum(path.stat().st_size for path in place.rglob("*.parquet"))
    spark = holdfast.session("bench", master="local[2]", **{"spark.driver.memory": "2g"})
    table = IcebergTable.forMetadata(spark, iceberg.metadata_of(place))
    hollow = once(DATA / f"iceberg-{rows}-v3-hollow", partial(_hollow, of=place))
    moved = {table.location: table.location.replace(str(place), str(hollow))}
    empty = IcebergTable.forMetadata(spark, iceberg.metadata_of(hollow), relocate=moved)

    def added_up(*columns: str, table: IcebergTable = table) -> DataFrame:
        df = table.scan(columns=list(columns), metadata=ASKED)
        sums = [F.sum(F.crc32(F.col(name).cast("string"))) for name in columns]
        return df.agg(F.sum("_pos"), F.sum("_row_id"), F.count_distinct("_file"), F.count("*"), *sums)

    ways: dict[str, Callable[[], DataFrame]] = {
        OURS: added_up,
        ONE_MORE: lambda: added_up("id"),
        WHOLE: lambda: added_up("id", "name", "x"),
    }
    case, read = Case(f"_file, _pos and _row_id of {rows:,} rows, 1 % deleted"), dict.fromkeys(ways, 0)
    for round_ in range(ROUNDS + 1):
        for name, way in ways.items():
            before, start = _bytes_read(), time.perf_counter()
            (found,) = way().collect()
            seconds = time.perf_counter() - start
            assert found[3] == rows - rows // 100, f"{found[3]} rows where there are {rows - rows // 100}"
            if round_:
                case.add(name, Took(seconds))
                read[name] = _bytes_read() - before
    same = added_up().collect() == added_up(table=empty).collect()
    spark.stop()
    told = ", ".join(f"{name} {count / 1e6:.2f} MB" for name, count in read.items())
    goals = [Goal("the same answer, of as many, from files without a single column chunk", same, float(same))]
    notes = (f"bytes read of {data / 1e6:.0f} MB in data files: {told}", machine())
    emit(Report("iceberg_spark", [case], goals, notes), as_json=asked.json)


def _hollow(place: Path, *, of: Path) -> None:
    """A copy of a table whose data files keep their size and their footers alone."""
    for source in (path for path in of.rglob("*") if path.is_file()):
        made = place / source.relative_to(of)
        made.parent.mkdir(parents=True, exist_ok=True)
        data = source.read_bytes()
        if source.suffix == ".parquet":
            footer = int.from_bytes(data[-8:-4], "little") + 8
            data = data[:4] + bytes(len(data) - 4 - footer) + data[-footer:]
        made.write_bytes(data)


def _bytes_read() -> int:
    """What the JVM under this process has read so far."""
    java = next(pid for pid in _below(os.getpid()) if Path(f"/proc/{pid}/comm").read_text().strip() == "java")
    (line,) = (line for line in Path(f"/proc/{java}/io").read_text().splitlines() if line.startswith("rchar"))
    return int(line.partition(":")[2])


def _below(pid: int) -> Iterator[int]:
    """A process and those it started."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _below(int(child))


if __name__ == "__main__":
    main()
