"""What every store must do (storage/base.py), asked of all of them."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Barrier

import pytest

from holdfast.storage.base import NotFound, ObjectStore
from holdfast.storage.open import open_location
from tests.support.s3 import BUCKET, S3Server

ODD_NAMES = [
    "a b", "%41", "100%", "a+b", "#", "?", "a&b=c", "ü", "😀", "[x]", "{x}", "^", "`", "'", '"', ";", "a:b", "~", "!",
    "@", "$", "(x)", ",", "\\", "|", "<x>", "..x", ".x", "e\u0301",
]  # fmt: skip
_fresh = count()


class Place:
    """A store and an empty directory of it."""

    def __init__(self, path: str, options: dict[str, str] | None = None) -> None:
        self.path, self.options = path, options
        self.store, self.directory = self.another(), open_location(path, storage_options=options).directory

    def another(self) -> ObjectStore:
        """The store as a second client sees it."""
        return open_location(self.path, storage_options=self.options).store

    def key(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def names(self, start: str = "") -> list[str]:
        return [meta.name for meta in self.store.list_from(self.directory, start)]


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    match request.param:
        case "local":
            return Place(str(tmp_path / "t"))
        case "memory":
            return Place(f"memory://contract/{next(_fresh)}")
        case _:
            s3: S3Server = request.getfixturevalue("s3")
            return Place(f"s3a://{BUCKET}/{next(_fresh)}/t", s3.options)


def test_what_is_put_is_what_is_got(place: Place) -> None:
    for data in (b"", b"one", bytes(range(256)) * 300):
        place.store.put(place.key("x"), data)
        assert place.store.get(place.key("x")) == data
        assert place.store.head(place.key("x")).size == len(data)


def test_a_range_ends_where_the_object_ends(place: Place) -> None:
    key = place.key("x")
    place.store.put(key, b"0123456789")
    for start, length in [(0, 10), (0, 0), (3, 4), (3, 0), (8, 2), (8, 100), (10, 1), (10, 0), (50, 5)]:
        assert place.store.get_range(key, start, length) == b"0123456789"[start : start + length], (start, length)


def test_what_is_missing_is_not_found_by_name(place: Place) -> None:
    place.store.put(place.key("dir/x"), b"")
    for missing in ("nope", "no/such/dir", "dir"):
        key = place.key(missing)
        for ask in (
            lambda key=key: place.store.get(key),
            lambda key=key: place.store.head(key),
            lambda key=key: place.store.get_range(key, 0, 5),
            lambda key=key: place.store.get_range(key, 0, 0),
        ):
            with pytest.raises(NotFound, match=missing) as caught:
                ask()
            assert caught.value.key == key
            assert f"{place.store.url}/{key}" in str(caught.value)


def test_a_second_put_if_absent_changes_nothing(place: Place) -> None:
    key = place.key("deep/er/x")
    assert place.store.put_if_absent(key, b"first") is True
    assert place.store.put_if_absent(key, b"second") is False
    assert place.another().put_if_absent(key, b"third") is False
    assert place.store.get(key) == b"first"
    place.store.put(key, b"replaced")
    assert place.store.get(key) == b"replaced"


def test_delete_is_no_error_twice(place: Place) -> None:
    key = place.key("x")
    place.store.put(key, b"1")
    place.store.delete(key)
    place.store.delete(key)
    place.store.delete(place.key("never/was"))
    with pytest.raises(NotFound):
        place.store.get(key)
    assert place.store.put_if_absent(key, b"2") is True


def test_modified_is_in_milliseconds_and_listed_as_headed(place: Place) -> None:
    place.store.put(place.key("x"), b"12")
    [listed] = place.store.list_from(place.directory)
    assert listed.key == place.key("x")
    assert listed.size == 2
    assert abs(listed.modified_ms - place.store.head(place.key("x")).modified_ms) < 1000
    assert 1_600_000_000_000 < listed.modified_ms < 10_000_000_000_000


def test_a_listing_is_ordered_starts_inclusively_and_stays_in_its_directory(place: Place) -> None:
    names = ["00", "01", "01.x", "02", "_last", "a", "B", "é", "z", "\ufffd", "😀"]
    for name in names:
        place.store.put(place.key(name), b"")
    for below in ("00dir/x", "_sidecars/a", "_sidecars/b/c", "zz/y"):
        place.store.put(place.key(below), b"")
    place.store.put(f"{place.directory}x/other", b"")
    ordered = sorted(names, key=lambda name: name.encode())
    assert place.names() == ordered
    for start in [*names, "005", "0", "~", "_sidecars", "\U0010ffff"]:
        assert place.names(start) == [name for name in ordered if name.encode() >= start.encode()], start
    everything = {meta.key.removeprefix(place.directory + "/") for meta in place.store.list_all(place.directory)}
    assert everything == {*names, "00dir/x", "_sidecars/a", "_sidecars/b/c", "zz/y"}


def test_no_directory_lists_as_nothing(place: Place) -> None:
    assert place.names() == []
    assert list(place.store.list_all(place.key("no/where"))) == []
    place.store.put(place.key("x"), b"")
    assert list(place.store.list_from(place.key("x"))) == []


def test_odd_names_are_names_like_any_other(place: Place) -> None:
    for name in ODD_NAMES:
        assert place.store.put_if_absent(place.key(f"{name}/{name}"), name.encode())
    for name in ODD_NAMES:
        assert place.store.get(place.key(f"{name}/{name}")) == name.encode()
        assert [meta.name for meta in place.store.list_from(place.key(name))] == [name]
    listed = {meta.key for meta in place.store.list_all(place.directory)}
    assert listed == {place.key(f"{name}/{name}") for name in ODD_NAMES}


def test_one_of_many_racers_creates(place: Place) -> None:
    rounds, racers = 30, 4
    stores = [place.another() for _ in range(racers)]
    barrier = Barrier(racers)

    def race(me: int) -> list[bool]:
        won = []
        for turn in range(rounds):
            barrier.wait()
            won.append(stores[me].put_if_absent(place.key(f"{turn:020d}.json"), f"{me}".encode()))
        return won

    with ThreadPoolExecutor(racers) as pool:
        results = list(pool.map(race, range(racers)))
    for turn in range(rounds):
        winners = [me for me in range(racers) if results[me][turn]]
        assert len(winners) == 1
        assert place.store.get(place.key(f"{turn:020d}.json")) == f"{winners[0]}".encode()


def test_a_store_travels_unless_it_is_memory(place: Place) -> None:
    if place.path.startswith("memory:"):
        with pytest.raises(TypeError, match="one process"):
            pickle.dumps(place.store)
        return
    place.store.put(place.key("x"), b"1")
    assert pickle.loads(pickle.dumps(place.store)).get(place.key("x")) == b"1"
