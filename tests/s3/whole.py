"""One table in S3 that uses most of what the format has, shared by the tests of this directory."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from holdfast.storage.location import Location
from tests.support.tablesmith import Tablesmith

PARTITIONS = ("a b", "ü/ß=%41:?#+&", None)
NESTED = {
    "type": "struct",
    "fields": [
        {"name": "a", "type": "integer", "nullable": True, "metadata": {}},
        {
            "name": "b c",
            "type": {"type": "array", "elementType": "timestamp_ntz", "containsNull": True},
            "nullable": True,
            "metadata": {},
        },
    ],
}
PRICES = {"type": "map", "keyType": "string", "valueType": "decimal(30,5)", "valueContainsNull": True}


def whole_table(where: Location) -> Tablesmith:
    """Awkward partitions, all three kinds of vectors, stored ids, a checkpoint with sidecars, mapped columns."""
    smith = Tablesmith(
        where,
        schema=[
            ("id", "long"),
            ("v", "string"),
            ("p", "string"),
            ("day", "date"),
            ("at", "timestamp"),
            ("local", "timestamp_ntz"),
            ("nested", NESTED),
            ("prices", PRICES),
            ("price", "decimal(38,10)"),
            ("x", "double"),
            ("y", "float"),
            ("raw", "binary"),
            ("flag", "boolean"),
            ("small", "short"),
            ("tiny", "byte"),
            ("nothing", "void"),
        ],
        partition_by=["p", "day"],
        column_mapping="name",
        features=["v2Checkpoint"],
        in_commit_timestamps=True,
    )
    smith.append([_row(i) for i in range(15)])
    smith.append(
        [_row(i) for i in (15, 18)], materialized_ids=[1000, 1001], materialized_versions=[None, 1]
    )  # both in the first partition
    smith.hide(0, [0, 2], storage="i")
    smith.hide(1, [1], storage="u")
    smith.hide(2, [4], storage="p")
    smith.checkpoint("v2-parquet", sidecars=2)
    smith.update(3, {1: {"v": "changed"}})
    return smith


def _row(i: int) -> dict[str, Any]:
    part = i % len(PARTITIONS)
    return {
        "id": i,
        "v": "xyz"[i % 2],
        "p": PARTITIONS[part],
        "day": datetime.date(1582, 10, 4 + part),
        "at": datetime.datetime(1890 + 10 * i, 3, 10, 2, 30, 0, 123456, tzinfo=datetime.UTC),
        "local": datetime.datetime(2024, 3, 10, 2, 30, i),
        "nested": {"a": i, "b c": [None, datetime.datetime(2024, 3, 10, 2, 30)]} if i % 5 else None,
        "prices": [("k", Decimal(i) / 4), ("none", None)],
        "price": Decimal(i) / 8,
        "x": i / 7,
        "y": i / 2,
        "raw": bytes([i]),
        "flag": i % 2 == 0 if i % 3 else None,
        "small": -i,
        "tiny": i,
    }
