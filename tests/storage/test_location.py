"""File keys from untrusted paths, and Spark's spelling of them (storage/location.py)."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Invalid
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from tests.support.depth import examples

HERE = open_location("/data/t")
BUCKET = open_location("s3a://b/t")
ANYWHERE, ANY_BUCKET = (replace(location, allow_outside=True) for location in (HERE, BUCKET))

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)
keys = st.lists(names, min_size=1, max_size=4).map("/".join)
locations = st.sampled_from([HERE, BUCKET, open_location("s3://b"), Location(MemoryStore("m"), "a b/%41")])


@given(locations, keys)
@examples(60)
def test_every_key_survives_every_spelling(location: Location, key: str) -> None:
    encoded = quote(key, safe="/")
    assert location.file_key(encoded) == key
    assert location.file_key(f"./{encoded}") == key
    assert location.file_key(encoded.replace("/", "//") + "/") == key
    assert location.file_key(location.spark_uri(key)) == key
    scheme, _, rest = location.file_url(key).partition("://")
    assert location.file_key(f"{scheme}://{quote(rest, safe='/')}") == key
    assert location.store_key(key) == location.key(key)
    assert location.spark_uris(pa.array([key])).to_pylist() == [location.spark_uri(key)]


@given(
    locations, st.lists(keys.flatmap(lambda key: st.sampled_from([key, quote(key), quote(key, safe="/=:"), f"/{key}"])))
)
@examples(50)
def test_many_paths_at_once_are_each_path_by_itself(location: Location, paths: list[str]) -> None:
    def one_by_one() -> list[str] | type[Exception]:
        try:
            return [location.file_key(path) for path in paths]
        except Invalid:
            return Invalid

    expected = one_by_one()
    for array in (pa.array(paths, pa.string()), pa.chunked_array([paths[:2], paths[2:]], pa.string())):
        if isinstance(expected, list):
            got = location.file_keys(array)
            assert got.to_pylist() == expected
            assert location.spark_uris(got).to_pylist() == [location.spark_uri(key) for key in expected]
        else:
            with pytest.raises(Invalid):
                location.file_keys(array)


def test_missing_paths_stay_missing() -> None:
    assert HERE.file_keys(pa.array(["a", None, "b%20c", "d%20e/f"])).to_pylist() == ["a", None, "b c", "d e/f"]


@pytest.mark.parametrize(
    ("location", "path", "key"),
    [
        (HERE, "a=1/x.parquet", "a=1/x.parquet"),
        (HERE, "a=%2Fx%253A/y", "a=/x%3A/y"),
        (HERE, "/data/t/x", "x"),
        (HERE, "file:/data/t/x", "x"),
        (HERE, "file:///data/t/x", "x"),
        (HERE, "file://localhost/data//t/./x", "x"),
        (ANYWHERE, "/data/other/x", "file:///data/other/x"),
        (ANYWHERE, "/data/tx/x", "file:///data/tx/x"),
        (HERE, "a:b/c", "a:b/c"),
        (HERE, "a:%2F%2Fb", "a:/b"),
        (HERE, "100%/x+y", "100%/x+y"),
        (HERE, "..a/b..", "..a/b.."),
        (BUCKET, "s3://b/t/x", "x"),
        (BUCKET, "s3a://b/t/x%20y", "x y"),
        (ANY_BUCKET, "S3N://b/u/x", "s3://b/u/x"),
        (ANY_BUCKET, "/u/x", "s3://b/u/x"),
        (BUCKET, "//b/t/x", "x"),
    ],
)
def test_spellings_of_one_file_give_one_key(location: Location, path: str, key: str) -> None:
    assert location.file_key(path) == key
    assert location.file_keys(pa.array([path])).to_pylist() == [key]


@pytest.mark.parametrize(
    ("location", "path"),
    [
        (HERE, "../x"),
        (HERE, "a/../../x"),
        (HERE, "%2e%2e/x"),
        (HERE, "a%2F..%2F..%2Fx"),
        (HERE, "/data/t/../x"),
        (HERE, "file:/data/t/%2E./x"),
        (HERE, "s3://b/x"),
        (HERE, "file://host/data/t/x"),
        (HERE, "//host/data/t/x"),
        (HERE, "http://[::1/x"),
        (BUCKET, "s3://other/t/x"),
        (BUCKET, "s3://b@evil/t/x"),
        (BUCKET, "gs://b/t/x"),
        (BUCKET, "file:/etc/passwd"),
        (BUCKET, "s3://b%2ft/x"),
    ],
)
def test_what_escapes_is_refused_unless_allowed(location: Location, path: str) -> None:
    with pytest.raises(Invalid, match="allow_outside"):
        location.file_key(path)
    with pytest.raises(Invalid, match="allow_outside"):
        location.file_keys(pa.array(["plain", path]))
    allowed = Location(location.store, location.directory, allow_outside=True)
    assert "/../" not in allowed.file_url(allowed.file_key(path))


@pytest.mark.parametrize("path", ["", "/", "//", "a%00b", "x/%FF", "s3://b"])
def test_what_cannot_be_a_file_is_refused_whatever_is_allowed(path: str) -> None:
    for location in (HERE, Location(HERE.store, HERE.directory, allow_outside=True)):
        with pytest.raises(Invalid):
            location.file_key(path)
        with pytest.raises(Invalid):
            location.file_keys(pa.array([path]))


def test_allowed_to_leave_a_key_says_where_it_went() -> None:
    free = Location(HERE.store, HERE.directory, allow_outside=True)
    assert free.file_key("../u/x") == "file:///data/u/x"
    assert free.file_key("a/../x") == "x"
    assert free.file_key("s3a://b/x%20y") == "s3://b/x y"
    assert free.store_key("file:///data/u/x") == "data/u/x"
    with pytest.raises(Invalid, match="store of its own"):
        free.store_key("s3://b/x y")


# Seen in `_metadata.file_path` of PySpark 4.3.0 for a file in a directory of this name. A name with a colon works for
# a directory; Hadoop cannot read a local file called so.
SPARK_KEEPS = "!$&'()*+,-.0123456789:;=@AZ_az~ü€éß😀\ue000\ufeff\u200b\u200e\u00ad\u180e\u0378\ud7ff"
SPARK_ENCODES = {
    "\x01": "%01", "\t": "%09", "\n": "%0A", " ": "%20", '"': "%22", "#": "%23", "%": "%25", "<": "%3C", ">": "%3E",
    "?": "%3F", "[": "%5B", "\\": "%5C", "]": "%5D", "^": "%5E", "`": "%60", "{": "%7B", "|": "%7C", "}": "%7D",
    "\x7f": "%7F", "\x80": "%C2%80", "\x85": "%C2%85", "\xa0": "%C2%A0", "\u1680": "%E1%9A%80",
    "\u2003": "%E2%80%83", "\u2028": "%E2%80%A8", "\u202f": "%E2%80%AF", "\u205f": "%E2%81%9F", "\u3000": "%E3%80%80",
}  # fmt: skip


def test_spark_spells_names_as_it_was_seen_to() -> None:
    expected = {name: name for name in SPARK_KEEPS} | SPARK_ENCODES | {"e\u0301": "e\u0301", "a%20b": "a%2520b"}
    assert {name: HERE.spark_uri(name) for name in expected} == {
        name: f"file:/data/t/{spelled}" for name, spelled in expected.items()
    }
    assert open_location("/a b").spark_uri("ü") == "file:/a%20b/ü"
