"""Finds the Java that Spark will run on, without starting Spark.

1. JAVA_HOME is asked first, then the PATH, then the places where systems keep their Javas.
2. A Java counts when it answers `java -version` with OLDEST or newer; an older one is passed over.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

OLDEST = 17
ADVICE = (
    f"install a Java runtime, version {OLDEST} or newer (Debian or Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17), or point JAVA_HOME at one"
)

_PLACES = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that runs, by its home directory and full version."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version, maxsplit=1)[0])


def find_java(environ: Mapping[str, str] = os.environ) -> Java | None:
    """The first Java that is new enough for Spark."""
    return next((java for java in every_java(environ) if java.major >= OLDEST), None)


def every_java(environ: Mapping[str, str] = os.environ) -> Iterator[Java]:
    """All Javas that run, in the order they are considered; each home once."""
    seen: set[Path] = set()
    for home in _homes(environ):
        if home not in seen:
            seen.add(home)
            version = _version(home)
            if version is not None:
                yield Java(home, version)


def _homes(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent
    for place in _PLACES:
        pattern = Path(place).expanduser()
        yield from sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))


def _version(home: Path) -> str | None:
    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r'version "(\d[^"]*)"', answer.stderr)
    return version[1] if version else None
