"""What is no error of ours elsewhere: deep JSON, names no file can have, files that may not be read, a full disk."""

from __future__ import annotations

import builtins
import errno
import json
import multiprocessing
import os
import resource
import signal
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable, IcebergTable
from holdfast.errors import Damaged, Invalid, MissingFile, NotATable, TableError, Unavailable
from tests.formats.iceberg.smith import Smith, column
from tests.support.gateway import address
from tests.support.tablesmith import Tablesmith

DEEP = "[" * 100_000 + "]" * 100_000
HALF_DEEP = 150  # levels that JSON readers take, and most walks through a schema would not


def smithed(root: Path) -> Tablesmith:
    smith = Tablesmith(root / "t", schema=[("id", "long"), ("s", "string")])
    smith.append([{"id": i, "s": str(i)} for i in range(5)])
    return smith


def rows(root: Path) -> int:
    return DeltaTable.forPath(None, str(root / "t")).toArrow().num_rows


def rewritten(path: Path, change: Any) -> None:
    """Change the actions of a commit."""
    path.write_text("".join(f"{change(line)}\n" for line in path.read_text().splitlines()))


def nested(levels: int) -> dict[str, Any]:
    type_: Any = "long"
    for _ in range(levels):
        type_ = {"type": "struct", "fields": [{"name": "a", "type": type_, "nullable": True, "metadata": {}}]}
    found: dict[str, Any] = type_
    return found


def with_schema(schema: Any) -> Any:
    def change(line: str) -> str:
        action = json.loads(line)
        if "metaData" in action:
            action["metaData"]["schemaString"] = schema if isinstance(schema, str) else json.dumps(schema)
        return json.dumps(action)

    return change


@pytest.mark.parametrize(
    "schema",
    [
        DEEP,
        nested(HALF_DEEP),
        nested(102),
        "[]",
        '"long"',
        "7",
        '{"type": "struct", "fields": {"a": 1}}',
        '{"type": "struct", "fields": [7]}',
        '{"type": "struct", "fields": [{"name": 7, "type": "long"}]}',
        '{"type": "struct", "fields": [{"name": "a", "type": "long", "metadata": [1]}]}',
        '{"type": "struct", "fields": [{"name": "a", "type": "long", "metadata": {"delta.columnMapping.id": "x"}}]}',
        '{"type": "struct", "fields": [{"name": "a", "type": ["array"]}]}',
    ],
    ids=range(12),
)
def test_a_schema_that_is_none_is_damage(tmp_path: Path, schema: Any) -> None:
    smithed(tmp_path)
    rewritten(tmp_path / "t/_delta_log" / f"{0:020}.json", with_schema(schema))
    with pytest.raises(Damaged, match="schema"):
        rows(tmp_path)


def test_a_schema_may_be_deep(tmp_path: Path) -> None:
    smithed(tmp_path)
    rewritten(tmp_path / "t/_delta_log" / f"{0:020}.json", with_schema(nested(60)))
    assert DeltaTable.forPath(None, str(tmp_path / "t")).version == 1


@pytest.mark.parametrize("line", ['{"commitInfo": %s}', '{"other": %s}', '{"add": {"path": "x", "other": %s}}'])
def test_deep_json_in_a_commit(tmp_path: Path, line: str) -> None:
    smith = smithed(tmp_path)
    log = tmp_path / "t/_delta_log" / f"{smith.version:020}.json"
    log.write_text(log.read_text() + line % DEEP + "\n")
    with pytest.raises(Damaged, match=rf"line 4 of .*{smith.version:020}\.json .*nested too deeply"):
        rows(tmp_path)


@pytest.mark.parametrize(
    "data", [DEEP.encode(), b'{"version": 1, "x": "\xff"}', b'{"version": 1, "checksum": "\\ud800"}']
)
def test_a_hint_or_a_checksum_of_nonsense_changes_nothing(tmp_path: Path, data: bytes) -> None:
    smith = smithed(tmp_path)
    smith.checkpoint()
    (tmp_path / "t/_delta_log/_last_checkpoint").write_bytes(data)
    (tmp_path / "t/_delta_log" / smith.crc()).write_bytes(data)
    assert rows(tmp_path) == 5


def test_commit_infos_that_cannot_be_read_count_as_empty(tmp_path: Path) -> None:
    smith = smithed(tmp_path)
    log = tmp_path / "t/_delta_log" / f"{smith.version:020}.json"
    log.write_bytes(log.read_bytes().replace(b'"operation":"WRITE"', b'"operation":"\xff\xfe"'))
    table = DeltaTable.forPath(None, str(tmp_path / "t"))
    assert table.toArrow().num_rows == 5
    assert table.historyArrow().num_rows == 2


def test_metadata_of_iceberg_that_grows_or_descends_from_itself(tmp_path: Path) -> None:
    smith = Smith(str(tmp_path / "t"), [column(1, "id")])
    smith.commit([smith.data({"id": [1, 2]})])
    path = Path(smith.metadata())
    metadata = json.loads(path.read_text())
    metadata["snapshots"][0]["parent-snapshot-id"] = metadata["snapshots"][0]["snapshot-id"]
    path.write_text(json.dumps(metadata))
    with pytest.raises(Damaged, match="descends from itself"):
        list(IcebergTable.forMetadata(None, str(path)).handle.newest().metadata.ancestry(metadata_entry(path)))
    for schema in (DEEP, json.dumps(nested(HALF_DEEP))):
        path.write_text(json.dumps(metadata).replace('"schemas": [', f'"schemas": [{schema}, '))
        with pytest.raises(Damaged):
            IcebergTable.forMetadata(None, str(path)).toArrow()
    packed = tmp_path / "t/metadata/v2.gz.metadata.json"
    packed.write_bytes(bomb())
    with pytest.raises(Damaged, match="256 times its size"):
        IcebergTable.forMetadata(None, str(packed))


def metadata_entry(path: Path) -> Any:
    state = IcebergTable.forMetadata(None, str(path)).handle.newest()
    return state.metadata.snapshots[0]


def bomb() -> bytes:
    """Sixty megabytes of blanks, packed."""
    pack = zlib.compressobj(9, wbits=31)
    return b"".join(pack.compress(b" " * (1 << 20)) for _ in range(60)) + pack.flush()


@pytest.mark.parametrize("name", ["n" * 5_000, "d" * 300 + "/x", "%00", "a%00b", "%ff"], ids=range(5))
def test_a_log_that_names_what_no_file_can_be_called(tmp_path: Path, name: str) -> None:
    smith = smithed(tmp_path)
    smith.commit([{"add": {**smith.live()[0], "path": name}}])
    with pytest.raises((MissingFile, Invalid)):
        rows(tmp_path)


@pytest.mark.parametrize("path", ["a\x00b", "n" * 5_000, "d/" * 4_000], ids=range(3))
def test_a_place_that_no_table_can_be_at(tmp_path: Path, path: str) -> None:
    with pytest.raises((Invalid, NotATable)):
        DeltaTable.forPath(None, f"{tmp_path}/{path}")
    with pytest.raises(TableError):
        DeltaTable.create(None).location(f"{tmp_path}/{path}").addColumns(pa.schema([("a", pa.int64())])).execute()
    with pytest.raises(TableError):
        IcebergTable.forMetadata(None, f"{tmp_path}/{path}")


def test_a_file_that_is_a_directory_is_missing(tmp_path: Path) -> None:
    smith = smithed(tmp_path)
    data = tmp_path / "t" / smith.live()[0]["path"]
    data.unlink()
    data.mkdir()
    with pytest.raises(MissingFile, match=data.name):
        rows(tmp_path)


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smith = smithed(tmp_path)
    name = smith.live()[0]["path"]

    def refusing(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(path: Any, *more: Any, **how: Any) -> Any:
            if str(path).endswith(name):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return real(path, *more, **how)

        return run

    monkeypatch.setattr(builtins, "open", refusing(builtins.open))
    monkeypatch.setattr(os, "open", refusing(os.open))
    table = DeltaTable.forPath(None, str(tmp_path / "t"))
    for ask in (
        table.toArrow,
        lambda: table.take([1]),
        lambda: table.delete("id = 1"),
        lambda: table.optimize().executeZOrderBy("id"),
    ):
        with pytest.raises(Invalid, match=rf"{name}: Permission denied; let this user read it"):
            ask()


@pytest.mark.parametrize("count", [4, 6])
def test_a_file_with_another_number_of_rows_is_damage(tmp_path: Path, count: int) -> None:
    smith = smithed(tmp_path)
    data = tmp_path / "t" / smith.live()[0]["path"]
    pq.write_table(pa.concat_tables([pq.read_table(data)] * 2).slice(0, count), data)
    table = DeltaTable.forPath(None, str(tmp_path / "t"))
    for ask in (table.toArrow, lambda: table.optimize().executeZOrderBy("id")):
        with pytest.raises(
            Damaged,
            match=f"{data.name} has {count} rows, and the table says that it has 5: .* check.repair=True. puts right",
        ):
            ask()


def on_a_full_disk(path: str, pipe: Any) -> None:
    """Append more than a file may have."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        if path.endswith(".db"):
            table: Any = IcebergTable.load(None, path, "db.t")
        else:
            table = DeltaTable.forPath(None, path)
        table.append(pa.table({"id": pa.array(range(100_000), pa.int64())}))
    except TableError as error:
        pipe.send((type(error).__name__, str(error)))
    except BaseException as error:
        pipe.send((type(error).__name__, "foreign"))


@pytest.mark.parametrize("iceberg", [False, True])
def test_a_full_disk_loses_nothing(tmp_path: Path, iceberg: bool) -> None:
    schema = pa.schema([("id", pa.int64())])
    if iceberg:
        path = str(tmp_path / "c.db")
        IcebergTable.create(None, path, "db.t", schema).append(pa.table({"id": [1]}))
    else:
        path = str(tmp_path / "t")
        DeltaTable.create(None).location(path).addColumns(schema).execute()
    before = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=on_a_full_disk, args=(path, theirs))
    process.start()
    assert ours.poll(60)
    kind, text = ours.recv()
    process.join()
    assert kind == Unavailable.__name__, text
    assert "nothing was written: make room, then try again" in text
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == before


@pytest.mark.everywhere
def test_on_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    """A file that is torn, and one that is not there, in verbs that read and write through tasks."""
    smith = smithed(tmp_path)
    smith.append([{"id": 9, "s": "x"}])
    data = tmp_path / "t" / smith.live()[0]["path"]
    whole = data.read_bytes()
    data.write_bytes(whole[:-20])
    table = DeltaTable.forPath(spark, str(tmp_path / "t"))
    for ask in (lambda: table.update("id = 1", {"s": "'y'"}), lambda: table.optimize().executeZOrderBy("id")):
        with pytest.raises(TableError, match=data.name):
            ask()
    data.write_bytes(whole)
    if address(data).startswith("s3a:"):  # the connector keeps what it read of an object, as data files never change
        table = DeltaTable.forPath(None, str(tmp_path / "t"))
    table.update("id = 1", {"s": "'y'"})
    assert rows(tmp_path) == 6
