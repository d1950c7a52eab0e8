"""What a new local session is given, and which Java it gets, without starting one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import integers

from holdfast.engines.spark.session import local_session as module
from holdfast.engines.spark.session.java import OLDEST, every_java, find_java
from holdfast.engines.spark.session.local_session import driver_memory_mb, shuffle_partitions
from holdfast.errors import Unavailable

MIB = 1 << 20


@given(integers(256 * MIB, 2**44))
def test_the_driver_never_takes_the_whole_machine(machine: int) -> None:
    given_mb = driver_memory_mb(machine)
    assert given_mb <= 8192
    assert given_mb * MIB <= machine * 3 // 4
    assert given_mb >= 1024 or machine < 2048 * MIB


@given(integers(1, 1024))
def test_shuffles_use_every_core_within_bounds(cores: int) -> None:
    assert min(cores, 64) <= shuffle_partitions(cores) <= 64


def _java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_comes_first_and_an_old_java_is_passed_over(tmp_path: Path) -> None:
    old, new = _java(tmp_path / "old", "1.8.0_402"), _java(tmp_path / "new", "21.0.2")
    environ = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert [java.home for java in every_java(environ)][:2] == [old, new]
    found = find_java(environ)
    assert found is not None
    assert (found.home, found.version, found.major) == (new, "21.0.2", 21)


def test_a_broken_java_home_is_no_java(tmp_path: Path) -> None:
    broken = _java(tmp_path / "broken", "17")
    (broken / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    assert all(java.home != broken for java in every_java({"JAVA_HOME": str(broken), "PATH": ""}))


def test_without_java_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_java", lambda: None)
    monkeypatch.setattr(module.SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(Unavailable, match=rf"version {OLDEST} or newer.*JAVA_HOME"):
        module.session()
