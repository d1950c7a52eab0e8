"""What somebody new gets wrong in the first hour: each mistake is answered by one sentence that says what to do.

1. The first line of every message is the whole sentence; only rows that do not fit show both schemas below it.
2. The class says the next step, as for every error.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdfast
from holdfast import DeltaTable, Invalid, NoRowIdentity, NotATable, TableError, Unavailable, UnknownColumn, Unsupported
from holdfast.cli.doctor import checks
from holdfast.engines.spark.session import local_session as sessions
from holdfast.engines.spark.session.home import two_sparks
from holdfast.errors import SchemaMismatch, UnknownVersion

A_FULL_STOP_IN_THE_MIDDLE = re.compile(r"[.!] [A-Z]")


@dataclass(frozen=True)
class Home:
    """A directory with a table, a table without row tracking, and things that are no table."""

    path: Path
    boats: DeltaTable
    plain: DeltaTable


Mistake: TypeAlias = Callable[[Home], object]
Case: TypeAlias = tuple[Mistake, type[TableError], str]  # what is done, what it raises, what is in the message


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(tmp_path)
    boats = DeltaTable.create().location("boats").addColumn("id", "long").addColumn("name", "string").execute()
    boats.append(pa.table({"id": [1, 2], "name": ["Ark", "Brig"]}))
    plain = DeltaTable.create().location("plain").addColumn("id", "long").property("holdfast.plain", "true").execute()
    Path("parquet").mkdir()
    pq.write_table(pa.table({"a": [1]}), "parquet/part-0.parquet")
    Path("empty").mkdir()
    Path("ice/metadata").mkdir(parents=True)
    Path("ice/metadata/v2.metadata.json").write_text("{}")
    return Home(tmp_path, boats, plain)


def _open(path: str) -> Mistake:
    return lambda home: DeltaTable.forPath(None, path)


def _set(name: str, value: str) -> Mistake:
    return lambda home: home.boats.setProperties({name: value})


def _create(name: str, kind: str = "int") -> Mistake:
    return lambda home: DeltaTable.create().location(name).addColumn("a", kind).execute()


PLACES: dict[str, Case] = {
    "a typo": (_open("baots"), NotATable, "did you mean {home}/boats?"),
    "nowhere": (_open("x/y"), NotATable, "there is nothing at {home}/x/y: check the path"),
    "an empty directory": (_open("empty"), NotATable, "DeltaTable.create(spark).location('{home}/empty')"),
    "Parquet files": (_open("parquet"), NotATable, "convertToDelta(spark, 'parquet.`{home}/parquet`')"),
    "a Parquet file": (_open("parquet/part-0.parquet"), NotATable, "name the directory of a table"),
    "an Iceberg table": (_open("ice"), NotATable, "forMetadata(spark, '{home}/ice/metadata/v2.metadata.json')"),
    "the log": (_open("boats/_delta_log"), NotATable, "name its directory, {home}/boats"),
    "the warehouse": (_open("."), NotATable, "name one of boats, plain"),
    "a scheme": (_open("hdfs://n/t"), Invalid, "it can open a local path, file:, s3://"),
    "a table that is there": (_create("boats"), Invalid, "open it with forPath, or use createIfNotExists"),
    "a name without a session": (
        lambda h: DeltaTable.forName(None, "orders"),
        Invalid,
        "open it with a session, or by",
    ),
    "no place": (lambda h: DeltaTable.create().addColumn("a", "int").execute(), Invalid, "with location(path)"),
}
COLUMNS: dict[str, Case] = {
    "in where": (lambda h: h.boats.toArrow(where="nmae = 'Ark'"), UnknownColumn, "did you mean name?"),
    "in delete": (lambda h: h.boats.delete("nmae = 'Ark'"), UnknownColumn, "did you mean name?"),
    "in set": (lambda h: h.boats.update("id = 1", {"nmae": "'x'"}), UnknownColumn, "it has id, name"),
    "a text without quotes": (lambda h: h.boats.update("id = 1", {"name": "Cog"}), UnknownColumn, "as in \"'Cog'\""),
    "nothing to set": (lambda h: h.boats.update("id = 1"), Invalid, "as in update('id = 1', {{'name': \"'x'\"}})"),
    "to read": (lambda h: h.boats.toArrow(columns=["nmae"]), UnknownColumn, "did you mean name?"),
    "no list": (lambda h: h.boats.toArrow(columns="name"), Invalid, "such as ['name']"),
    "metadata": (lambda h: h.boats.toArrow(metadata=["_rowid"]), UnknownColumn, "ask for one of _row_id"),
    "no SQL": (lambda h: h.boats.toArrow(where="name = = 'x'"), Unsupported, "correct it"),
    "a type": (_create("t", "longg"), Invalid, "did you mean long?"),
    "no type at all": (_create("t", "qqqqqq"), Invalid, "there is no type 'qqqqqq', but long, int, double"),
}
ROWS: dict[str, Case] = {
    "a column too many": (lambda h: h.boats.append(pa.table({"nam": ["x"]})), SchemaMismatch, "stands beside each"),
    "a type": (lambda h: h.boats.append(pa.table({"id": ["x"]})), SchemaMismatch, "what to do stands beside each"),
    "of Python": (lambda h: h.boats.append([{"id": 1}]), Invalid, "a DataFrame or an Arrow table, not list"),
}
PROPERTIES: dict[str, Case] = {
    "a name": (_set("delta.enableChangeDataFed", "true"), Invalid, "did you mean delta.enableChangeDataFeed?"),
    "a name of ours": (_set("holdfast.layuot", "point"), Invalid, "did you mean holdfast.layout?"),
    "a value": (_set("delta.appendOnly", "yes"), Invalid, "it must be true or false"),
}
IDENTITY: dict[str, Case] = {
    "ids": (lambda h: h.plain.toArrow(metadata=["_row_id"]), NoRowIdentity, "enableRowTracking()"),
    "rows by id": (lambda h: h.plain.take([0]), NoRowIdentity, "enableRowTracking()"),
    "an index": (lambda h: h.plain.createIndex("id"), NoRowIdentity, "enableRowTracking()"),
    "a biography": (lambda h: h.plain.biography(0), NoRowIdentity, "enableRowTracking()"),
    "an erasure": (lambda h: h.plain.erase("id = 1"), NoRowIdentity, "enableRowTracking()"),
}
VERSIONS: dict[str, Case] = {
    "a number": (lambda h: h.boats.toArrow(version=99), UnknownVersion, "readable are versions 0 to 1"),
    "a time": (lambda h: h.boats.toArrow(timestamp="yesterday"), Invalid, "write it as 2024-05-01"),
    "a kind of changes": (lambda h: h.boats.changes(1, kind="all"), Invalid, "ask for one of append-only"),
    "a short retention": (lambda h: h.boats.vacuum(0), Invalid, "enforceRetention=False if there are none"),
}
SESSIONS: dict[str, Case] = {
    "a DataFrame without one": (lambda h: h.boats.toDF(), Invalid, "use toArrow, or open it with one"),
    "a merge of nothing": (
        lambda h: h.boats.merge(pa.table({"id": [1]}), "id = id").execute(),
        Invalid,
        "when... clause",
    ),
}
MISTAKES = {
    f"{area}: {name}": case
    for area, cases in {
        "place": PLACES,
        "column": COLUMNS,
        "rows": ROWS,
        "property": PROPERTIES,
        "identity": IDENTITY,
        "version": VERSIONS,
        "session": SESSIONS,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize(("mistake", "kind", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered_by_what_to_do(mistake: Mistake, kind: type[TableError], says: str, home: Home) -> None:
    with pytest.raises(kind) as caught:
        mistake(home)
    assert says.format(home=home.path) in _sentence(caught.value)


def test_what_does_not_fit_is_shown_with_what_to_do(home: Home) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        home.boats.append(pa.table({"id": ["x"], "nam": ["x"]}))
    lines = str(caught.value).splitlines()
    assert any(line.startswith("! id long") and line.endswith("give it as long") for line in lines)
    assert any("nam string" in line and line.endswith("let the write add columns (mergeSchema)") for line in lines)


def test_a_name_that_is_not_there_lists_those_that_are() -> None:
    with pytest.raises(AttributeError, match=r"it has .*DeltaTable"):
        _ = holdfast.DetlaTable


def test_a_spark_of_another_release_in_spark_home(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    told = two_sparks("4.3.0", {"SPARK_HOME": str(tmp_path)})
    assert told == f"SPARK_HOME is {tmp_path}, a Spark 3.5.1, and this Python has PySpark 4.3.0: unset SPARK_HOME"
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").rename(tmp_path / "jars" / "spark-core_2.13-4.0.1.jar")
    assert two_sparks("4.3.0", {"SPARK_HOME": str(tmp_path)}).endswith("or pip install 'pyspark==4.0.1'")
    assert two_sparks("4.0.0", {"SPARK_HOME": str(tmp_path)}) == ""
    assert "unset it" in two_sparks("4.3.0", {"SPARK_HOME": str(tmp_path / "nowhere")})
    assert two_sparks("4.3.0", {}) == ""


def test_the_doctor_tells_of_two_sparks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert checks.pyspark().ok is False
    assert "unset it" in checks.pyspark().advice


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no Spark were running in this process."""
    monkeypatch.setattr(sessions.SparkSession, "getActiveSession", lambda: None)


@pytest.mark.usefixtures("no_session")
def test_a_session_says_what_is_in_its_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(Unavailable) as caught:
        holdfast.session()
    assert "unset it" in _sentence(caught.value)
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setattr(sessions, "find_java", lambda: None)
    with pytest.raises(Unavailable) as caught:
        holdfast.session()
    assert "point JAVA_HOME at one" in _sentence(caught.value)


@pytest.mark.usefixtures("no_session")
def test_spark_connect_without_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_is_there", lambda module: module != "grpc")
    with pytest.raises(Unavailable) as caught:
        holdfast.session(master="sc://localhost")
    assert _sentence(caught.value).endswith("whose client lacks grpc here: pip install 'holdfast[connect]'")


def test_an_old_spark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        version = "3.5.1"

    monkeypatch.setattr(sessions.SparkSession, "getActiveSession", lambda: Old())
    with pytest.raises(Invalid, match=r"is one of Spark 3\.5\.1: Holdfast needs Spark 4 or newer"):
        holdfast.session()


@pytest.mark.parametrize(
    ("missing", "code", "says"),
    [
        ("pyiceberg", "holdfast.IcebergTable", "pip install 'holdfast[iceberg]'"),
        ("faiss", "from holdfast.index.vector.library import library; library()", "pip install 'holdfast[vector]'"),
    ],
)
def test_a_missing_extra_is_named(missing: str, code: str, says: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None\nimport holdfast\n{code}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("holdfast.")
    assert says in last


def _sentence(error: BaseException) -> str:
    """The first line of a message, which must be one sentence."""
    first, *below = str(error).splitlines()
    assert not below or isinstance(error, SchemaMismatch), f"one line was expected, not {error}"
    assert not A_FULL_STOP_IN_THE_MIDDLE.search(first), f"one sentence was expected, not {first}"
    assert len(first) < 500
    return first
