"""What only files can get wrong (storage/local.py)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import Invalid, OutcomeUnknown, Unavailable
from holdfast.storage.local import TEMPORARY, LocalStore


def key_of(path: Path) -> str:
    return str(path).lstrip("/")


def refuse(code: int) -> Callable[..., None]:
    def call(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return call


def test_leftovers_of_a_crash_are_never_listed(tmp_path: Path) -> None:
    (tmp_path / f".5f2{TEMPORARY}").write_bytes(b"half")
    (tmp_path / ".hidden").write_bytes(b"whole")
    (tmp_path / f"a{TEMPORARY}").write_bytes(b"a user's")
    store, directory = LocalStore(), key_of(tmp_path)
    expected = [".hidden", f"a{TEMPORARY}"]
    assert [meta.name for meta in store.list_from(directory)] == expected
    assert sorted(meta.name for meta in store.list_all(directory)) == expected


def test_a_write_leaves_nothing_but_the_object(tmp_path: Path) -> None:
    store = LocalStore()
    store.put(key_of(tmp_path / "d" / "x"), b"1")
    store.put_if_absent(key_of(tmp_path / "d" / "x"), b"2")
    store.put_if_absent(key_of(tmp_path / "d" / "y"), b"2")
    assert sorted(os.listdir(tmp_path / "d")) == ["x", "y"]


def test_new_files_have_the_modes_the_user_asked_for(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        LocalStore().put_if_absent(key_of(tmp_path / "x"), b"")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_bytes_and_directories_are_forced_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def note(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    LocalStore().put_if_absent(key_of(tmp_path / "new" / "x"), b"1")
    assert synced[0] == str(tmp_path), "the directory that holds the new directory"
    assert synced[1].endswith(TEMPORARY)
    assert synced[2] == str(tmp_path / "new"), "the directory that holds the new name"


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
def test_without_hard_links_the_name_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(os, "link", refuse(code))
    store, key = LocalStore(), key_of(tmp_path / "x")
    assert store.put_if_absent(key, b"1") is True
    monkeypatch.setattr(os.path, "lexists", lambda _: False)  # the other writer comes between the look and the claim
    assert store.put_if_absent(key, b"2") is False
    assert store.get(key) == b"1"
    assert os.listdir(tmp_path) == ["x"]


def test_a_link_whose_answer_was_lost_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def lossy(source: str, target: str) -> None:
        real(source, target)
        raise FileExistsError(errno.EEXIST, "exists")

    monkeypatch.setattr(os, "link", lossy)
    assert LocalStore().put_if_absent(key_of(tmp_path / "x"), b"1") is True


def test_a_failure_before_the_name_is_unavailable_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, key = LocalStore(), key_of(tmp_path / "x")
    for name in ("link", "replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse(errno.ENOSPC))
            write = store.put if name == "replace" else store.put_if_absent
            with pytest.raises(Unavailable, match=str(tmp_path / "x")):
                write(key, b"1")
    assert os.listdir(tmp_path) == []


def test_a_failure_after_the_name_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def only_files(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, "input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", only_files)
    with pytest.raises(OutcomeUnknown, match=str(tmp_path / "x")):
        LocalStore().put(key_of(tmp_path / "x"), b"1")
    assert (tmp_path / "x").read_bytes() == b"1"


def test_what_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", refuse(errno.EACCES))
    with pytest.raises(Invalid, match=f"cannot list {tmp_path}: .*; let this user list it"):
        LocalStore().list_from(key_of(tmp_path))
    monkeypatch.setattr(os, "listdir", refuse(errno.EIO))
    with pytest.raises(Unavailable, match=str(tmp_path)):
        LocalStore().list_from(key_of(tmp_path))
    monkeypatch.setattr(os, "stat", refuse(errno.EIO))
    with pytest.raises(Unavailable, match=str(tmp_path / "x")):
        LocalStore().head(key_of(tmp_path / "x"))
    with pytest.raises(Invalid, match="cannot be the name"):
        LocalStore().get("a\x00b")


def test_links_to_files_are_listed_and_links_to_nothing_are_not(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"123")
    (tmp_path / "to_x").symlink_to(tmp_path / "x")
    (tmp_path / "to_nothing").symlink_to(tmp_path / "gone")
    listed = {meta.name: meta.size for meta in LocalStore().list_from(key_of(tmp_path))}
    assert listed == {"x": 3, "to_x": 3}
