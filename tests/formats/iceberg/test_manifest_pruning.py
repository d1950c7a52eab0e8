"""Pruning of manifests by field summaries never leaves out a manifest with a matching row."""

from __future__ import annotations

import datetime
import decimal
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list
from pyspark.sql import SparkSession

from holdfast import IcebergTable
from holdfast.formats.iceberg.commit.manifest_writer import field_summaries
from holdfast.verbs.open.iceberg_handle import IcebergHandle
from tests.support.depth import DEPTH

ROWS = pa.schema(
    [
        ("i", pa.int64()),
        ("s", pa.string()),
        ("d", pa.decimal128(7, 2)),
        ("f", pa.float64()),
        ("day", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
    ]
)
SPECS = [
    ("i",), ("s",), ("d",), ("f",), ("day",), ("truncate(10, i)",), ("truncate(1, s)",), ("month(day)",), ("day(t)",),
    ("hour(t)", "s"), ("bucket(3, i)", "f"), ("truncate(2, s)", "year(t)"),
]  # fmt: skip
CONDITIONS = [
    "i = 15", "i > 40", "i < 5 OR i > 50", "i IN (3, 44)", "i IS NULL", "i IS NOT NULL", "NOT (i > 3)", "s = 'ab'",
    "s LIKE 'b%'", "s >= 'c'", "d > 3.5", "d = -1.25", "f > 2", "f <= 0.0", "f = 0.0", "f IS NULL",
    "day = DATE '2026-03-01'", "day < DATE '2026-02-01'", "t >= TIMESTAMP '2026-03-01 00:00:00'", "s = 'ab' AND i > 20",
    "t IS NULL",
]  # fmt: skip
DAY = datetime.date(2026, 1, 1)


def row(rng: random.Random) -> dict[str, Any]:
    shift = datetime.timedelta(days=rng.randrange(90), hours=rng.randrange(24))
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + shift
    made: dict[str, Any] = {
        "i": rng.randrange(60),
        "s": rng.choice(["a", "ab", "b", "ba", "c\u00e9", ""]),
        "d": decimal.Decimal(rng.randrange(-500, 500)) / 4,
        "f": rng.choice([0.0, -0.0, 1.5, 3.25, -2.0, float("nan")]),
        "day": DAY + shift,
        "t": moment,
    }
    return {name: None if rng.random() < 0.1 else value for name, value in made.items()}


def made(path: str, by: tuple[str, ...], commits: list[list[dict[str, Any]]]) -> IcebergTable:
    apart = {"commit.manifest-merge.enabled": "false", "write.delete.mode": "merge-on-read"}
    table = IcebergTable.create(None, f"{path}/c.db", "db.t", ROWS, partitionedBy=by, properties=apart)
    for rows in commits:
        table.append(pa.Table.from_pylist(rows, ROWS))
    table.delete("i % 7 = 0")
    return IcebergTable.load(None, f"{path}/c.db", "db.t")


def manifests_read(table: IcebergTable) -> int:
    return len(table.handle.state.contents.read)


@pytest.mark.parametrize("seed", range(4 * DEPTH))
def test_no_row_is_lost(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    by = SPECS[seed % len(SPECS)]
    table = made(str(tmp_path), by, [[row(rng)] * rng.randrange(1, 3) for _ in range(4)])
    whole = IcebergTable.load(None, f"{tmp_path}/c.db", "db.t")
    assert whole.handle.newest().contents.listed, "read, so that nothing is left out"
    for condition in CONDITIONS:
        fresh = IcebergTable(IcebergHandle(None, table.handle.newest(), None))
        found, expected = fresh.toArrow(where=condition), whole.toArrow(where=condition)
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist())), condition


def test_manifests_are_left_unread(tmp_path: Path) -> None:
    commits = [
        [{"i": 10 * n, "s": "x", "day": DAY + datetime.timedelta(days=31 * n), "f": 1.0}, {"i": 10 * n + 1, "s": "x"}]
        for n in range(10)
    ]
    table = made(str(tmp_path), ("truncate(10, i)",), commits)
    deletes = sum(m.content for m in table.handle.newest().contents.manifests)
    assert (len(table.handle.newest().contents.manifests), deletes, manifests_read(table)) == (11, 1, 0)
    assert table.toArrow(where="i = 31")["i"].to_pylist() == [31]
    assert manifests_read(table) == 2, "that of the files, and that of their deletes"
    assert table.toArrow(where="i > 89", metadata=["_pos"])["i"].to_pylist() == [90]
    assert manifests_read(table) == 3
    assert table.toArrow(where="s = 'x'").num_rows == 16
    assert manifests_read(table) == 11


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    made(str(tmp_path), ("s",), [[{"i": n, "s": name}] for n, name in enumerate("abcdef")])
    table = IcebergTable.load(spark, f"{tmp_path}/c.db", "db.t")
    assert [found.i for found in table.scan(where="s = 'c'").collect()] == [2]
    assert manifests_read(table) == 1


@pytest.mark.parametrize("version", [2, 3])
def test_others_read_the_summaries(tmp_path: Path, version: int) -> None:
    by = ("s", "d", "f", "day(t)")
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", ROWS, partitionedBy=by, formatVersion=version)
    zone = datetime.UTC
    table.append(
        pa.Table.from_pylist(
            [
                {"s": "b", "d": decimal.Decimal("1.28"), "f": -0.0, "t": datetime.datetime(2026, 1, 2, tzinfo=zone)},
                {"s": "a\u00e9", "d": decimal.Decimal("-1.29"), "f": float("nan"), "t": None},
            ],
            ROWS,
        )
    )
    entry = table.handle.newest().entry
    assert entry is not None
    (listed,) = read_manifest_list(PyArrowFileIO().new_input(entry.manifest_list or ""))
    told = [(p.contains_null, p.contains_nan, p.lower_bound, p.upper_bound) for p in listed.partitions or ()]
    assert told == [
        (False, False, "a\u00e9".encode(), b"b"),
        (False, False, b"\xff\x7f", b"\x00\x80"),
        (False, True, bytes(7) + b"\x80", bytes(8)),
        (True, False, (20455).to_bytes(4, "little"), (20455).to_bytes(4, "little")),
    ]


def test_a_field_without_values() -> None:
    tuples = {"fields": [{"name": "x", "type": ["null", "int"], "field-id": 1000}]}
    assert field_summaries(tuples, [{"x": None}]) == [
        {"contains_null": True, "contains_nan": False, "lower_bound": None, "upper_bound": None}
    ]
