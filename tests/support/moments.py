"""Conditions on dates and times of all of Spark's range, asked of a table by every verb and of Spark itself.

Run as a script it asks them in a JVM of another time zone, `python -m tests.support.moments <zone> <directory>`, and
prints what differs: a JVM keeps the zone it began with.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable
from holdfast.engines.spark.conditions import below
from holdfast.engines.spark.session.local_session import session
from holdfast.engines.spark.types import named
from holdfast.predicate.parse import parse
from holdfast.predicate.records import has_opaque

SESSION_ZONES = ("UTC", "America/Los_Angeles", "Asia/Kolkata")
_ZONE = "spark.sql.session.timeZone"
_COLUMNS = {"id": "long", "ts": "timestamp", "n": "timestamp_ntz", "d": "date", "v": "string"}
_KNOWN = (  # the ends of the range, years that Java writes shorter, the change of calendars, zones before standard time
    "0001-01-01 00:00:00",
    "0500-01-01 00:00:00",
    "0999-12-31 23:59:59.999999",
    "1000-01-01 00:00:00",
    "1500-02-01 01:00:00",
    "1500-03-01 00:00:00",
    "1582-10-04 12:00:00",
    "1582-10-10 00:00:00",
    "1582-10-15 00:00:00",
    "1800-01-01 00:00:00",
    "1883-11-18 19:50:00",
    "1899-12-31 23:00:00",
    "1900-01-01 00:00:00",
    "1969-12-31 23:59:59.999999",
    "1970-01-01 00:00:00",
    "2024-01-01 00:00:00",
    "2024-03-10 10:30:00",
    "9999-12-31 23:59:59.999999",
)
_ALONE = _KNOWN.index("1582-10-10 00:00:00")
CONDITIONS = (
    "ts = TIMESTAMP '1500-02-01 01:00:00Z'",
    "ts <= TIMESTAMP '1800-01-01 00:00:00Z'",
    "d IN (DATE '0500-01-01', DATE '1582-10-10')",
    "d = DATE '1582-10-10'",
    "d >= DATE '1582-10-09' AND d < DATE '1582-10-12'",
    "ts = TIMESTAMP '1582-10-10 00:00:00Z'",
    "n = TIMESTAMP_NTZ '1582-10-10 00:00:00'",
    "d < DATE '0999-12-31' OR n >= TIMESTAMP_NTZ '9999-12-31 00:00:00'",
)
_ONLY_SPARK = (  # and folds to literals
    "d = make_date(1582, 10, 10)",
    "d = date_sub(DATE '1600-01-01', 6292)",
    "d >= date_from_unix_date(-141433) AND d < date_from_unix_date(-141430)",
    "ts = timestamp_seconds(-12219724800)",
)


def moments(rng: Random, more: int = 10) -> list[datetime.datetime]:
    """Those that are hard, and some from anywhere in the range."""
    first, last = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59)
    known = [datetime.datetime.fromisoformat(text) for text in _KNOWN]
    seconds = int((last - first).total_seconds())
    return known + [first + datetime.timedelta(seconds=rng.randrange(seconds)) for _ in range(more)]


def rows_of(found: list[datetime.datetime]) -> pa.Table:
    ids = pa.array(range(len(found)), pa.int64())
    local = pa.array(found, pa.timestamp("us"))
    return pa.table(
        {
            "id": ids,
            "ts": local.cast(pa.int64()).cast(pa.timestamp("us", "UTC")),
            "n": local,
            "d": local.cast(pa.date32()),
            "v": pa.array(["a"] * len(found)),
        }
    )


def table_at(path: str, rows: pa.Table) -> DeltaTable:
    """Rows in three files, one of a single row in a week that Java's old calendar lacks, with vectors allowed."""
    builder = DeltaTable.create(None).location(path).property("delta.enableDeletionVectors", "true")
    for name, type_ in _COLUMNS.items():
        builder = builder.addColumn(name, type_)
    made = builder.execute()
    made.append(rows.slice(0, 4))
    made.append(rows.slice(_ALONE, 1))
    made.append(pa.concat_tables([rows.slice(4, _ALONE - 4), rows.slice(_ALONE + 1)]))
    return made


def differing(spark: SparkSession, path: str, rng: Random, zones: tuple[str, ...] = SESSION_ZONES) -> Iterator[str]:
    """What answers otherwise than Spark does above all rows; `path` is where a table may be made."""
    found = moments(rng)
    table_at(path, rows_of(found))
    table = DeltaTable.forPath(spark, path)
    was = spark.conf.get(_ZONE) or "UTC"
    every = table.toDF().cache()  # a condition above it reaches no file
    try:
        for zone in zones:
            spark.conf.set(_ZONE, zone)
            yield from (f"{zone}: {text}" for text in _wrong_literals(every, table, found, rng, zone))
        spark.conf.set(_ZONE, zones[-1])
        table.delete("id = 3", mode="merge-on-read")  # rows that are hidden take another way through a scan
        yield from _wrong_verbs(table, every.where("id <> 3"))
    finally:
        every.unpersist()
        spark.conf.set(_ZONE, was)


def _wrong_literals(
    every: DataFrame, table: DeltaTable, found: list[datetime.datetime], rng: Random, zone: str
) -> list[str]:
    """Conditions whose literals Spark takes for other values; one job for all of them."""
    schema = table.handle.newest().snapshot.schema
    texts = []
    for moment in found:
        text, op = moment.isoformat(sep=" "), rng.choice(("=", "<=", ">", "<=>"))
        texts += [f"ts {op} TIMESTAMP '{text}Z'", f"n {op} TIMESTAMP_NTZ '{text}'", f"d {op} DATE '{moment.date()}'"]
    read = [(text, parse(text, schema, zone=zone)) for text in texts]
    assert not any(has_opaque(predicate) for _, predicate in read), "each of them is understood in every zone"
    same = [F.min(F.expr(text).eqNullSafe(below(p, named))) for text, p in read]
    answers = every.agg(*same).collect()[0]
    return [text for (text, _), is_same in zip(read, answers, strict=True) if not is_same]


def _wrong_verbs(table: DeltaTable, every: DataFrame) -> Iterator[str]:
    local = DeltaTable.forPath(None, table.handle.newest().snapshot.location.url)
    for text in (*CONDITIONS, *_ONLY_SPARK):
        wanted = _ids(every.where(F.expr(text)))
        assert wanted, "each of them is true of some row"
        if (got := _ids(table.scan(where=text))) != wanted:
            yield f"scan({text}) gives {got}, not {wanted}"
        if text in _ONLY_SPARK:
            continue
        if (got := sorted(local.toArrow(["id"], text)["id"].to_pylist())) != wanted:
            yield f"toArrow({text}) gives {got}, not {wanted}"
    both = f"({CONDITIONS[1]}) AND NOT ({CONDITIONS[0]})"
    counts = {
        f"update({both})": (table.update(both, {"v": "'b'"}).metrics["numUpdatedRows"], every.where(both).count()),
        f"merge on {_KEYED}": (_merged(table), 2),
        f"delete({CONDITIONS[0]})": (table.delete(CONDITIONS[0]).metrics["numDeletedRows"], 1),
        f"delete({CONDITIONS[2]})": (table.delete(CONDITIONS[2]).metrics["numDeletedRows"], 2),
    }
    yield from (f"{verb} takes {got} rows, not {wanted}" for verb, (got, wanted) in counts.items() if got != wanted)


_KEYED = "t.ts = s.ts AND t.d = s.d"


def _merged(table: DeltaTable) -> int:
    """How many rows a merge finds by keys of year 500 and of 1500."""
    source = rows_of([datetime.datetime(500, 1, 1), datetime.datetime(1500, 2, 1, 1)])
    done = table.alias("t").merge(source, _KEYED).whenMatchedUpdate(set={"v": "'c'"}).execute()
    return int(done.metrics["numTargetRowsUpdated"])


def _ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.select("id").collect())


if __name__ == "__main__":
    zone, directory = sys.argv[1:]
    quick = f"-Duser.timezone={zone} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    small = {"spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false"}
    spark = session("moments", master="local[1]", **{"spark.driver.extraJavaOptions": quick, **small})
    assert zone in spark.sql("SELECT java_method('java.util.TimeZone', 'getDefault')").collect()[0][0]
    print(json.dumps(list(differing(spark, str(Path(directory) / "t"), Random(18), ("UTC", "Asia/Kolkata")))))
    spark.stop()
