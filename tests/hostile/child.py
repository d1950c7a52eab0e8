"""A process that works through changed files, one after another, and says what came of each.

1. It forks from a server that has imported everything, so that a new one costs milliseconds.
2. What it may have of memory is limited, and what a case took of it at most is measured. Whether it takes too long, or
   dies, its parent sees.
3. A case follows from the kind, the seed and its number, and leaves the table as it was.
"""

from __future__ import annotations

import logging
import os
import resource
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from holdfast.errors import TableError
from tests.hostile.kinds import KINDS, Kind, Rule
from tests.hostile.mutate import changed

MOST_BYTES = 400 << 20  # that a case may take beyond what the process had
_KEPT, _NEW = ".holdfast-tmp-kept", ".holdfast-tmp-new"  # names that no file of a table has
_LIMIT = 6 << 30  # of addresses, beyond those the process had


class Verdict(NamedTuple):
    """What came of a case: nothing where it was right; else what was wrong."""

    change: str
    outcome: str  # right, or the classes of errors
    failure: str


def work(pipe: Connection, name: str, table: str, seed: int) -> None:
    """Answer numbers of cases with verdicts, until there are no more."""
    logging.disable()
    kind, root = KINDS[name], Path(table)
    for kept in root.rglob(f"*{_KEPT}"):  # by one that died
        os.rename(kept, kept.with_name(kept.name.removesuffix(_KEPT)))
    files = sorted(path for path in root.glob(kind.pattern) if path.is_file())
    assert files, f"no file of the kind {name} matches {kind.pattern}"
    expected = {asked: question(root) for asked, question in {**kind.questions, **kind.others}.items()}
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _LIMIT, size + _LIMIT))
    pipe.send(len(files))
    while (number := pipe.recv()) is not None:
        pipe.send(_case(kind, root, files, expected, Random(f"{name} {seed} {number}")))


def _case(kind: Kind, root: Path, files: list[Path], expected: dict[str, Any], rng: Random) -> Verdict:
    path = rng.choice(files)
    whole = path.read_bytes()
    change, data = changed(kind.shape, whole, [p.read_bytes() for p in files if p != path][:5], rng)
    change = f"{path.relative_to(root)}, {change}"
    before = _peak(reset=True)
    with _replaced(path, data):
        rule = kind.meaning_rule if "meaning:" in change else kind.bytes_rule
        outcomes, failures = set[str](), []
        for asked, question in {**kind.questions, **kind.others}.items():
            outcome, failure = _asked(question, root, expected[asked], rule if asked in kind.questions else Rule.ANY)
            outcomes.add(outcome)
            if failure:
                failures.append(f"{asked}: {failure}")
    taken = _peak() - before
    if taken > MOST_BYTES:
        failures.append(f"took {taken >> 20} MiB")
    return Verdict(change, ", ".join(sorted(outcomes)), "\n".join(failures))


def _asked(question: Any, root: Path, expected: Any, rule: Rule) -> tuple[str, str]:
    try:
        answer = question(root)
    except TableError as error:
        name = type(error).__name__
        return name, f"refused, where nothing is lost: {name}: {error}" if rule is Rule.SAME else ""
    except BaseException:  # whatever it is, it is what is looked for
        return "foreign", traceback.format_exc(limit=-6)
    if answer == expected:
        return "right", ""
    lost = rule in (Rule.SAME, Rule.STRICT) or (rule is Rule.COUNT and len(answer) != len(expected))
    return "other", f"another answer, without a word: {_difference(answer, expected)}" if lost else ""


def _difference(answer: Any, expected: Any) -> str:
    if not isinstance(answer, list):
        return f"{answer!r} instead of {expected!r}"
    more, fewer = sorted({*answer} - {*expected}), sorted({*expected} - {*answer})
    return f"{len(answer)} instead of {len(expected)}; more: {more[:2]}, fewer: {fewer[:2]}"


@contextmanager
def _replaced(path: Path, data: bytes) -> Iterator[None]:
    """Other bytes under a name; each time as another file, as whoever remembers files by their number expects."""
    kept, new = path.with_name(path.name + _KEPT), path.with_name(path.name + _NEW)
    new.write_bytes(data)
    os.rename(path, kept)
    os.rename(new, path)
    try:
        yield
    finally:
        os.rename(kept, path)


def _peak(*, reset: bool = False) -> int:
    """The most memory that the process had, in bytes; `reset` forgets what was before."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    found = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(found.split()[1]) * 1024
