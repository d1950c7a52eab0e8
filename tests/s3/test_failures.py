"""When a remote table cannot be read: one sentence that says why, and no credential anywhere."""

from __future__ import annotations

import logging
import socket
import traceback
from urllib.parse import unquote

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast import DeltaTable, Invalid, NotATable, TableError, Unavailable
from holdfast.errors import Damaged, MissingFile
from tests.s3.conftest import Place
from tests.support.s3 import ACCESS_KEY, BUCKET, S3Server
from tests.support.tablesmith import Tablesmith

pytestmark = pytest.mark.s3

SECRET = "S3CRET-holdfast-must-not-show"
TOKEN = "T0KEN-holdfast-must-not-show"


@pytest.fixture
def options(s3: S3Server) -> dict[str, str]:
    return {**s3.options, "aws_secret_access_key": SECRET, "aws_session_token": TOKEN}


@pytest.fixture
def smith(place: Place) -> Tablesmith:
    smith = Tablesmith(place(), schema=[("a", "long")])
    smith.append([{"a": 1}, {"a": 2}], files=2)
    return smith


def hides_secrets(*texts: str) -> bool:
    return not any(secret in text for text in texts for secret in (SECRET, TOKEN, ACCESS_KEY))


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def refusal(path: str, options: dict[str, str]) -> TableError:
    with pytest.raises(TableError) as caught:
        DeltaTable.forPath(None, path, storage_options=options)
    assert "\n" not in str(caught.value)
    assert hides_secrets("".join(traceback.format_exception(caught.value)))
    return caught.value


def test_a_bucket_that_does_not_exist(options: dict[str, str]) -> None:
    error = refusal("s3://holdfast-nowhere/t", options)
    assert type(error) is Invalid
    assert "s3://holdfast-nowhere does not exist" in str(error)
    with pytest.raises(Invalid, match="s3://holdfast-nowhere does not exist"):
        DeltaTable.isDeltaTable(None, "s3://holdfast-nowhere/t", storage_options=options)


def test_no_table_in_the_bucket(options: dict[str, str]) -> None:
    error = refusal(f"s3://{BUCKET}/no/table", options)
    assert isinstance(error, NotATable)
    assert f"there is nothing at s3://{BUCKET}/no/table: check the path" in str(error)


def test_wrong_credentials(options: dict[str, str], smith: Tablesmith) -> None:
    error = refusal(smith.url, {**options, "aws_access_key_id": "AKIAWRONG"})
    assert type(error) is Invalid
    assert "the credentials are not accepted (status 403, InvalidAccessKeyId)" in str(error)
    assert "AKIAWRONG" not in str(error)


def test_no_server(options: dict[str, str], smith: Tablesmith) -> None:
    address = f"http://127.0.0.1:{closed_port()}"
    error = refusal(smith.url, {**options, "aws_endpoint": address})
    assert type(error) is Unavailable
    assert str(error) == (
        f"cannot read {smith.url}/_delta_log/_last_checkpoint: {address} cannot be reached; "
        "check the address, or try again later"
    )


@pytest.mark.on_disk
@pytest.mark.parametrize("fate", [pytest.param("missing", marks=pytest.mark.everywhere), "empty", "torn"])
def test_a_bad_data_file_is_named_on_both_engines(
    spark: SparkSession, options: dict[str, str], smith: Tablesmith, fate: str
) -> None:
    file = unquote(smith.live()[1]["path"])
    if fate == "missing":
        smith.delete(file)
    else:
        smith.put(file, b"" if fate == "empty" else b"PAR1 torn")
    table = DeltaTable.forPath(spark, smith.url, storage_options=options)
    with pytest.raises(MissingFile if fate == "missing" else Damaged, match=file):
        table.toArrow()
    with pytest.raises(PySparkException, match=file) as caught:
        table.toDF().collect()
    assert f"{'MissingFile' if fate == 'missing' else 'Damaged'}: s3://" in str(caught.value)
    assert hides_secrets("".join(traceback.format_exception(caught.value)))


def test_credentials_that_expire_before_the_tasks_run(
    spark: SparkSession, s3: S3Server, options: dict[str, str], smith: Tablesmith
) -> None:
    df = DeltaTable.forPath(spark, smith.url, storage_options=options).toDF()
    with s3.locked(), pytest.raises(PySparkException, match="the credentials are not accepted") as caught:
        df.collect()
    assert hides_secrets("".join(traceback.format_exception(caught.value)))
    assert df.count() == 2


@pytest.mark.on_disk
@pytest.mark.everywhere
def test_nothing_shown_holds_a_credential(
    spark: SparkSession,
    options: dict[str, str],
    smith: Tablesmith,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    smith.hide(0, [0])
    table = DeltaTable.forPath(spark, smith.url, storage_options=options)
    df = table.scan(where="a > 0", metadata=["_row_id", "_file"])
    df.explain(True)
    df.explain("formatted")
    assert df.collect()[0]["a"] == 2
    shown = capfd.readouterr()
    assert "MapInArrow" in shown.out
    snapshot = table.handle.state.snapshot
    values = (table, df, table.explain(where="a > 0"), snapshot.location, snapshot.location.store)
    detail, history = table.detailArrow().to_pylist(), table.historyArrow().to_pylist()
    assert hides_secrets(shown.out, shown.err, caplog.text, str(detail), str(history), *map(repr, values))
