"""What users type (storage/open.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import Invalid
from holdfast.storage.location import split_uri
from holdfast.storage.open import open_location

AZURE = "c@acc.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("/t/x", "file:///t/x"),
        ("/t/x///", "file:///t/x"),
        ("/t/./y/../x", "file:///t/x"),
        ("//t//x", "file:///t/x"),
        ("/t/a%20b", "file:///t/a%20b"),
        ("/t/~", "file:///t/~"),
        ("/t/a?b#c", "file:///t/a?b#c"),
        ("file:/t/x/", "file:///t/x"),
        ("file:///t/a%20b", "file:///t/a%20b"),
        ("file://localhost/t/x", "file:///t/x"),
        ("FILE:/t/x", "file:///t/x"),
        ("s3://b/t/x/", "s3://b/t/x"),
        ("s3a://b/t//x", "s3://b/t/x"),
        ("s3n://b/t", "s3://b/t"),
        ("s3://b", "s3://b"),
        ("s3://b/", "s3://b"),
        ("gs://b/t", "gs://b/t"),
        ("gcs://b/t", "gs://b/t"),
        (f"abfss://{AZURE}/t", f"abfs://{AZURE}/t"),
        (f"abfs://{AZURE}/t", f"abfs://{AZURE}/t"),
        ("abfs://c@acc/t", f"abfs://{AZURE}/t"),
        ("az://c/t", f"abfs://{AZURE}/t"),
        ("memory://open/t", "memory://open/t"),
    ],
)
def test_spellings(path: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acc")
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    location = open_location(path)
    assert location.url == url
    assert open_location(location.url).url == url, "a location's URL opens it again"
    parsed = split_uri(location.store.url + "/")
    assert parsed is not None
    assert f"{parsed[0]}://{parsed[1]}" == location.store.url, "logs and stores agree on the canonical scheme"


def test_relative_paths_are_taken_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_location("a/../b c").url == f"file://{tmp_path}/b c"
    assert open_location("~/x").url == f"file://{tmp_path}/~/x"
    assert open_location("odd:name").url == f"file://{tmp_path}/odd:name"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "empty"),
        ("hdfs://host/t", "hdfs: is not a scheme.*s3a://.*abfss://"),
        ("https://host/t", "https"),
        ("s3:///t", "needs a name"),
        ("s3:/t", "needs a name"),
        ("memory:///t", "needs a name"),
        ("s3://user:SECRETVALUE@b/t", "no credentials"),
        ("abfss://c/t", "container@account"),
        ("abfss://c:SECRETVALUE@acc/t", "container@account"),
        ("file://host/t", "another machine"),
        ("s3://b/a/../c", "climbs"),
        ("az://c/t", "account"),
    ],
)
def test_what_names_no_place_is_refused(path: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Invalid, match=says) as caught:
        open_location(path)
    assert "SECRETVALUE" not in str(caught.value)


def test_spark_gets_the_spelling_the_user_chose() -> None:
    assert open_location("s3a://b/t").spark_uri("x") == "s3a://b/t/x"
    assert open_location("s3://b/t").spark_uri("x") == "s3://b/t/x"
    assert open_location("s3a://b/t", allow_outside=True).spark_uri("s3://other/x") == "s3a://other/x"
    assert open_location(f"abfss://{AZURE}/t").spark_uri("x") == f"abfss://{AZURE}/t/x"
    assert open_location("az://c/t", storage_options={"account_name": "acc"}).spark_uri("x") == f"abfss://{AZURE}/t/x"
    assert open_location("/t").spark_uri("x") == "file:/t/x"


def test_memory_of_one_name_is_one_store() -> None:
    open_location("memory://shared/t").store.put("t/x", b"1")
    assert open_location("memory://shared").store.get("t/x") == b"1"
    assert list(open_location("memory://unshared").store.list_all("")) == []
