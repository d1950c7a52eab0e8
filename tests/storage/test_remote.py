"""What only a network can get wrong (storage/remote.py), against a server on localhost."""

from __future__ import annotations

import traceback

import pytest

from holdfast.errors import Invalid, OutcomeUnknown, TableError, Unavailable
from holdfast.storage.base import NotFound
from holdfast.storage.config import StoreConfig
from holdfast.storage.open import open_location
from holdfast.storage.remote import RemoteStore
from tests.support.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server

pytestmark = pytest.mark.s3


@pytest.fixture
def store(s3: S3Server) -> RemoteStore:
    return RemoteStore(StoreConfig.of(f"s3://{BUCKET}", s3.options))


def test_a_conditional_put_whose_answer_is_lost_is_unknown_and_sent_once(s3: S3Server, store: RemoteStore) -> None:
    s3.requests.clear()
    s3.next_answer("PUT", 500, handled=True)
    with pytest.raises(OutcomeUnknown, match="lost/1"):
        store.put_if_absent("lost/1", b"mine")
    assert [one for one in s3.requests if one.startswith("PUT")] == [f"PUT /{BUCKET}/lost/1?"]
    assert store.get("lost/1") == b"mine"


def test_a_conditional_put_refused_while_nothing_is_there_may_be_tried_again(s3: S3Server, store: RemoteStore) -> None:
    s3.next_answer("PUT", 409, handled=False)
    with pytest.raises(Unavailable, match="nothing was written"):
        store.put_if_absent("collided/1", b"mine")
    assert store.put_if_absent("collided/1", b"mine") is True


def test_what_may_be_repeated_is(s3: S3Server, store: RemoteStore) -> None:
    for method in ("PUT", "GET", "HEAD"):
        s3.next_answer(method, 503, handled=False)
    store.put("repeated/1", b"x")
    assert store.get("repeated/1") == b"x"
    assert store.head("repeated/1").size == 1
    assert s3.broken == []


def test_a_listing_skips_over_a_large_sub_directory(s3: S3Server, store: RemoteStore) -> None:
    s3.fill(f"skip/_delta_log/_sidecars/{number:05d}" for number in range(2300))
    for name in ("00.json", "01.json", "_last_checkpoint", "_sidecarsx", "zz"):
        store.put(f"skip/_delta_log/{name}", b"")
    s3.requests.clear()
    names = [meta.name for meta in store.list_from("skip/_delta_log", "00")]
    assert names == ["00.json", "01.json", "_last_checkpoint", "_sidecarsx", "zz"]
    assert len(s3.requests) == 2, "one page that ends among the sidecars, one behind them"


def test_markers_that_hadoop_leaves_for_the_directory_itself_are_not_listed(s3: S3Server, store: RemoteStore) -> None:
    s3.client().put_object(Bucket=BUCKET, Key="marked/", Body=b"")
    store.put("marked/x", b"")
    assert [meta.name for meta in store.list_from("marked")] == ["x"]
    assert [meta.name for meta in store.list_all("marked")] == ["x"]


def test_hadoop_options_reach_the_same_bucket(s3: S3Server, store: RemoteStore) -> None:
    store.put("hadoop/x", b"1")
    location = open_location(f"s3a://{BUCKET}/hadoop/", storage_options=s3.hadoop_options)
    assert location.store.get(location.key("x")) == b"1"
    assert location.url == f"s3://{BUCKET}/hadoop"
    assert location.spark_uri("x y") == f"s3a://{BUCKET}/hadoop/x%20y"


def failures(store: RemoteStore) -> dict[str, TableError]:
    asks = {
        "get": lambda: store.get("k"),
        "get_range": lambda: store.get_range("k", 0, 1),
        "list_from": lambda: list(store.list_from("d")),
        "list_all": lambda: list(store.list_all("d")),
        "put": lambda: store.put("k", b""),
        "put_if_absent": lambda: store.put_if_absent("k", b""),
        "delete": lambda: store.delete("k"),
    }
    errors: dict[str, TableError] = {}
    for verb, ask in asks.items():
        with pytest.raises(TableError) as caught:
            ask()
        errors[verb] = caught.value
    return errors


def test_a_wrong_bucket_is_said_to_be_wrong(s3: S3Server) -> None:
    for verb, error in failures(RemoteStore(StoreConfig.of("s3://no-such-bucket", s3.options))).items():
        assert isinstance(error, Invalid), verb
        assert "s3://no-such-bucket does not exist" in str(error), verb
    with pytest.raises(NotFound):  # a HEAD answer has no body that could tell the difference
        RemoteStore(StoreConfig.of("s3://no-such-bucket", s3.options)).head("k")


def test_a_refused_connection_is_unavailable_for_writes_too(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.storage.remote._TRIES", 1)
    store = RemoteStore(StoreConfig.of(f"s3://{BUCKET}", {**s3.options, "aws_endpoint": "http://127.0.0.1:1"}))
    for verb, error in failures(store).items():
        assert type(error) is Unavailable, (verb, error)
        assert f"s3://{BUCKET}" in str(error)


def test_refused_credentials_ask_for_others(s3: S3Server, store: RemoteStore) -> None:
    for status in (401, 403):
        s3.next_answer("GET", status, handled=False)
        with pytest.raises(Invalid, match="credentials"):
            store.get("k")
        s3.next_answer("PUT", status, handled=False)
        with pytest.raises(Invalid, match="credentials"):
            store.put_if_absent("k", b"")
        s3.next_answer("GET", status, handled=False)
        with pytest.raises(Invalid, match="credentials"):
            list(store.list_from("k"))


def test_a_key_that_no_object_can_have_is_invalid(store: RemoteStore) -> None:
    with pytest.raises(Invalid, match="a//b"):
        store.get("a//b")


def test_no_secret_shows_anywhere(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.storage.remote._TRIES", 0)
    options = {**s3.options, "aws_session_token": "tokenoftokens"}
    shown: list[str] = []
    for url, more in [
        ("s3://no-such-bucket", {}),
        (f"s3://{BUCKET}", {"aws_endpoint": "http://127.0.0.1:1"}),
        (f"s3://{BUCKET}", {"aws_endpoint": f"http://127.0.0.1:1/{SECRET_KEY}"}),
    ]:
        config = StoreConfig.of(url, {**options, **more})
        store = RemoteStore(config)
        shown += [repr(config), str(config), repr(store), f"{open_location(url, storage_options=options)}"]
        for error in failures(store).values():
            shown += [str(error), repr(error), *traceback.format_exception(error)]
    with pytest.raises(Invalid) as caught:
        RemoteStore(StoreConfig.of(f"s3://{BUCKET}", {**options, "aws_server_side_encryption": SECRET_KEY}))
    shown += traceback.format_exception(caught.value)
    for secret in (ACCESS_KEY, SECRET_KEY, "tokenoftokens"):
        assert [text for text in shown if secret in text] == []
