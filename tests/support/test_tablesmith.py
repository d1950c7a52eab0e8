"""The smith's tables, read by another engine: what it says is in a table is what delta-rs finds there."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from holdfast.env import fixed
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from tests.support.smith_checkpoint import KINDS, STATS
from tests.support.tablesmith import Tablesmith

META = ("_row_id", "_row_commit_version", "_row_index", "_file")
SCHEMA = [("id", "long"), ("v", "string")]


def peer(path: Path, version: int | None = None) -> list[dict[str, Any]]:
    """All rows as delta-rs' own query engine reads them."""
    table = DeltaTable(str(path), version=version)
    found = QueryBuilder().register("t", table).execute("select * from t")
    return pa.table(found).to_pylist()


def same(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    def normal(rows: list[dict[str, Any]]) -> list[str]:
        plain = [{k: row[k] for k in sorted(row) if k not in META} for row in rows]
        return sorted(repr(_comparable(row)) for row in plain)

    assert normal(left) == normal(right)


def _comparable(value: Any) -> Any:
    match value:
        case dict():
            return {k: _comparable(v) for k, v in value.items()}
        case list() | tuple():
            return [_comparable(v) for v in value]
        case float() if math.isnan(value):
            return "NaN"
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat()
        case _:
            return value


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i, "v": f"v{i}"} for i in ids]


def identities(smith: Tablesmith, version: int | None = None) -> dict[int, tuple[int, int]]:
    return {r["id"]: (r["_row_id"], r["_row_commit_version"]) for r in smith.rows(version)}


def test_appends_give_ids_in_order(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path, schema=SCHEMA)
    smith.append(rows(10, 11, 12), files=2)
    smith.append(rows(20))
    assert identities(smith) == {10: (0, 1), 11: (1, 1), 12: (2, 1), 20: (3, 2)}
    assert smith.high_water() == 3
    assert [add["baseRowId"] for add in smith.live()] == [0, 1, 3]
    assert smith.rows(0) == []
    for version in (1, 2):
        same(smith.rows(version), peer(tmp_path, version))


def test_the_same_arguments_write_the_same_log(tmp_path: Path) -> None:
    logs = []
    for name in ("a", "b"):
        smith = Tablesmith(tmp_path / name, schema=SCHEMA)
        smith.append(rows(1, 2, 3), files=2)
        smith.hide(0, [0])
        logs.append([p.read_bytes() for p in sorted((tmp_path / name / "_delta_log").iterdir())])
    assert logs[0] == logs[1]


@pytest.mark.parametrize("storage", ["i", "u", "up", "p"])
def test_hidden_rows(tmp_path: Path, storage: str) -> None:
    smith = Tablesmith(tmp_path, schema=SCHEMA)
    smith.append(rows(*range(10)), files=2)
    smith.hide_many({0: [1, 2], 1: [0]}, storage=storage)
    smith.hide(0, [4], storage=storage)
    assert sorted(identities(smith)) == [0, 3, 6, 7, 8, 9]
    same(smith.rows(), peer(tmp_path))
    same(smith.rows(2), peer(tmp_path, 2))
    assert all('"tightBounds":false' in add["stats"] for add in smith.live())


def test_ids_hold_through_update_and_rewrite(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path, schema=SCHEMA)
    smith.append(rows(0, 1, 2, 3), files=2)
    smith.update(0, {1: {"v": "new"}})
    before = identities(smith)
    assert before == {0: (0, 1), 1: (1, 2), 2: (2, 1), 3: (3, 1)}
    smith.rewrite()
    assert identities(smith) == before
    assert len(smith.live()) == 1
    assert smith.live()[0]["baseRowId"] == 5
    same(smith.rows(), peer(tmp_path))
    assert [r["v"] for r in smith.rows() if r["id"] == 1] == ["new"]
    (add,) = smith.live()
    (stored,) = [n for n in pq.read_schema(tmp_path / add["path"]).names if n.startswith("_row-id-col-")]
    assert sorted(pq.read_table(tmp_path / add["path"]).column(stored).to_pylist()) == [0, 1, 2, 3]


def test_removed_files_are_gone(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path, schema=SCHEMA, row_tracking=False, deletion_vectors=False)
    smith.append(rows(0, 1, 2, 3), files=2, stats=False)
    smith.remove(0)
    assert [r["id"] for r in smith.rows()] == [2, 3]
    assert smith.rows()[0]["_row_id"] is None
    same(smith.rows(), peer(tmp_path))


ODD = ["a b", "a/b", "a=b", "a%2Fb", "ü😀", "100%", "x:y", "#?&+", "", None, "__HIVE_DEFAULT_PARTITION__x", "[{^}]'\""]


def test_partitions_with_odd_values(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path, schema=[*SCHEMA, ("p q", "string")], partition_by=["p q"], deletion_vectors=False)
    smith.append([{"id": i, "v": "x", "p q": value} for i, value in enumerate(ODD)])
    same([{**r, "p q": r["p q"] or None} for r in smith.rows()], peer(tmp_path))
    assert all((tmp_path / row["_file"]).is_file() for row in smith.rows())


def test_partition_values_of_every_kind(tmp_path: Path) -> None:
    moment = datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    values: list[tuple[str, Any]] = [
        ("long", -5),
        ("date", date(2020, 2, 29)),
        ("timestamp", moment),
        ("timestamp_ntz", moment.replace(tzinfo=None)),
        ("boolean", True),
        ("decimal(10,2)", Decimal("-1.50")),
        ("double", 1.5),
    ]
    names = [f"p{i}" for i in range(len(values))]
    schema = [("id", "long"), *((n, t) for n, (t, _) in zip(names, values, strict=True))]
    smith = Tablesmith(tmp_path, schema=schema, partition_by=names)
    row = dict(zip(names, (v for _, v in values), strict=True))
    smith.append([{"id": 1, **row}, {"id": 2}, {"id": 3, **row}])
    assert len(smith.live()) == 2
    same(smith.rows(), peer(tmp_path))


STRUCT = {
    "type": "struct",
    "fields": [
        {"name": "a", "type": "integer", "nullable": True, "metadata": {}},
        {"name": "b.c", "type": "string", "nullable": True, "metadata": {}},
    ],
}
LIST = {"type": "array", "elementType": "long", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True}
WIDE: list[tuple[str, Any]] = [
    ("id", "long"),
    ("f", "float"),
    ("d", "double"),
    ("dec", "decimal(20,3)"),
    ("day", "date"),
    ("ts", "timestamp"),
    ("flag", "boolean"),
    ("bytes", "binary"),
    ("s", STRUCT),
    ("list", LIST),
    ("map", MAP),
    ("text", "string"),
]


def wide_row(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "f": 1.5 * i,
        "d": math.nan if i == 3 else 0.1 * i,
        "dec": Decimal(f"{i}.125"),
        "day": date(2020, 1, 1 + i),
        "ts": datetime(2020, 1, 1, 0, 0, i, 123456, tzinfo=UTC),
        "flag": None if i % 2 else True,
        "bytes": bytes([i]),
        "s": None if i == 2 else {"a": i, "b.c": f"x{i}"},
        "list": [i, None],
        "map": [("k", 1.0 * i)],
        "text": "é" * (30 + i),
    }


@pytest.mark.parametrize("stats", STATS)
@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints(tmp_path: Path, kind: str, stats: str) -> None:
    features = ["v2Checkpoint"] if kind.startswith("v2") else []
    smith = Tablesmith(tmp_path, schema=WIDE, features=features)
    smith.append([wide_row(i) for i in range(6)], files=3)
    smith.hide(1, [0])
    smith.remove(2)
    names = smith.checkpoint(kind, stats=stats)
    assert len(names) == {"classic": 1, "multipart": 2}.get(kind, 3)
    smith.append([wide_row(7)])
    smith.forget(3)
    assert not (tmp_path / "_delta_log" / f"{0:020}.json").exists()
    same(smith.rows(), peer(tmp_path))
    assert [r["id"] for r in smith.rows()] == [0, 1, 3, 7]


def test_a_v2_checkpoint_with_its_files_inline(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path, schema=SCHEMA, features=["v2Checkpoint"])
    smith.append(rows(1, 2), files=2)
    assert len(smith.checkpoint("v2-parquet", sidecars=0)) == 1
    smith.forget(2)
    smith.append(rows(3))
    same(smith.rows(), peer(tmp_path))
    with pytest.raises(AssertionError, match="v2Checkpoint"):
        Tablesmith(tmp_path / "b", schema=SCHEMA).checkpoint("v2-json")


def test_compacted_logs_and_checksums(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path, schema=SCHEMA, in_commit_timestamps=True)
    smith.append(rows(1, 2), files=2)
    smith.hide(0, [0])
    smith.append(rows(3))
    name = smith.compact_log(1, 3)
    lines = (tmp_path / "_delta_log" / name).read_text().splitlines()
    assert sum('"add"' in line for line in lines) == 3
    assert sum('"remove"' in line for line in lines) == 1
    assert '"inCommitTimestampOpt"' in (tmp_path / "_delta_log" / smith.crc()).read_text()
    same(smith.rows(), peer(tmp_path))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns(tmp_path: Path, mode: str) -> None:
    smith = Tablesmith(tmp_path, schema=[*SCHEMA, ("s", STRUCT)], column_mapping=mode, partition_by=["v"])
    smith.append([{"id": i, "v": f"v{i % 2}", "s": {"a": i, "b.c": "x"}} for i in range(4)])
    names = pq.read_schema(tmp_path / smith.live()[0]["path"]).names
    assert all(name.startswith("col-") for name in names)
    field = pq.ParquetFile(tmp_path / smith.live()[0]["path"]).schema_arrow.field(0)
    assert field.metadata[b"PARQUET:field_id"] == b"1"
    assert smith.metadata()["configuration"]["delta.columnMapping.maxColumnId"] == "5"
    same(smith.rows(), peer(tmp_path))


def test_columns_come_and_go_by_name(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path, schema=SCHEMA, column_mapping="name")
    smith.append(rows(1))
    kept = smith.fields()[0]
    smith.evolve(schema=[{**kept, "name": "renamed"}, ("extra", "double")], delta__appendOnly="true")
    smith.append([{"renamed": 2, "extra": 0.5}])
    plain = [{k: v for k, v in r.items() if k not in META} for r in smith.rows()]
    assert plain == [{"renamed": 1, "extra": None}, {"renamed": 2, "extra": 0.5}]
    assert [r["id"] for r in smith.rows(1)] == [1]
    same(smith.rows(), peer(tmp_path))


def test_a_table_in_a_store() -> None:
    store = MemoryStore("m", fixed())
    smith = Tablesmith(Location(store, "a/t"), schema=SCHEMA)
    smith.append(rows(1, 2))
    smith.hide(0, [0], storage="p")
    names = {meta.key for meta in store.list_all("a/t")}
    assert {"a/t/_delta_log/00000000000000000002.json", f"a/t/{smith.rows()[0]['_file']}"} <= names
    assert smith.live()[0]["deletionVector"]["pathOrInlineDv"].startswith("memory://m/a/t/deletion_vector_")
