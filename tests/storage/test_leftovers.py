"""Unfinished files, empty directories, and many objects deleted at once."""

from __future__ import annotations

from pathlib import Path

from holdfast.storage.leftovers import delete_all, delete_one, remove_empty, unfinished
from holdfast.storage.local import TEMPORARY
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location


def test_unfinished_files_are_found_where_listings_hide_them(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in (f".x{TEMPORARY}", f"a/.y{TEMPORARY}", f"z{TEMPORARY}", ".hidden"):
        (tmp_path / name).write_bytes(b"123")
    location = open_location(str(tmp_path))
    sizes = {meta.key.removeprefix(f"{location.directory}/"): meta.size for meta in unfinished(location)}
    assert sizes == {f".x{TEMPORARY}": 3, f"a/.y{TEMPORARY}": 3}
    assert list(unfinished(Location(MemoryStore(), "t"))) == []


def test_empty_directories_go_with_those_they_leave_empty(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/b/d", "e/f", "g"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "e" / "file").write_bytes(b"")
    location = open_location(str(tmp_path))
    assert remove_empty(location, ["a/b/c", "a/b/d", "e/f", "no/such", "e"]) == 5
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == ["e", "e/file", "g"]
    assert tmp_path.exists()
    assert remove_empty(Location(MemoryStore(), "t"), ["a"]) == 0


def test_many_objects_go_at_once() -> None:
    store = MemoryStore()
    for n in range(100):
        store.put(f"t/{n}", b"")
    delete_all(Location(store, "t"), [f"t/{n}" for n in range(1, 200)])
    assert [meta.key for meta in store.list_all("")] == ["t/0"]


def test_nothing_behind_a_link_is_removed(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "t", tmp_path / "theirs"
    (mine / "real").mkdir(parents=True)
    theirs.mkdir()
    for file in (theirs / "a", theirs / "b", mine / "real" / "a"):
        file.write_bytes(b"")
    (mine / "link").symlink_to(theirs)
    (mine / "inner").symlink_to(mine / "real")
    (tmp_path / "elsewhere").symlink_to(mine)  # a table may be reached by a link
    for place in (mine, tmp_path / "elsewhere"):
        location = open_location(str(place))
        delete_all(location, [location.key("link/a"), location.key("no/such")])
        delete_one(location, location.key("link/b"))
    assert sorted(p.name for p in theirs.iterdir()) == ["a", "b"]
    delete_all(location, [location.key("inner/a")])
    assert not list((mine / "real").iterdir())
