"""Run programs on both engines and tell what differs; the exit code is the number of programs with surprises."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from bench import harness, peers
from tests.dropin.differential.answer import FORM, Answer
from tests.dropin.differential.compare import EVERYWHERE, surprises
from tests.dropin.differential.made_up import made_up
from tests.dropin.differential.program import Program, programs

KEPT = peers.ROOT / "build/differential"  # what engines answered, by program, so that a second look is quick
THEIRS, OURS = "delta-spark", "holdfast"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.dropin.differential", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only programs whose names have one of these")
    parser.add_argument("--random", type=int, metavar="COUNT", help="make up this many programs instead")
    parser.add_argument("--again", action="store_true", help="ask delta-spark again about what it answered before")
    parser.add_argument("--kept", action="store_true", help="compare what both answered before")
    asked = parser.parse_args(arguments)
    if trouble := peers.make():
        raise SystemExit(f"delta-spark is missing: {trouble}")
    if asked.random is not None:
        return _made_up(asked.random)
    chosen = programs(*asked.words)
    theirs = dict(_answers(THEIRS, chosen, again=asked.again))
    failed, seen = 0, set[str]()
    for name, ours in _answers(OURS, chosen, again=not asked.kept):
        program = next(each for each in chosen if each.name == name)
        found = surprises(program, theirs[name], ours, seen)
        failed += bool(found)
        print(f"{'DIFFERS' if found else 'same   '} {name}", *found, sep="\n  ", flush=True)
    stale = [] if asked.words else sorted(EVERYWHERE.keys() - seen)
    for name in stale:
        print(f"{name} is meant to differ everywhere ({EVERYWHERE[name]}), and does nowhere")
    print(f"{len(chosen)} programs, {sum(len(p.steps) for p in chosen)} steps, {failed} with surprises")
    return failed + len(stale)


def _answers(engine: str, chosen: list[Program], *, again: bool) -> Iterator[tuple[str, dict[str, Answer]]]:
    """What an engine answers to each program, from before where that is kept and not asked for again."""
    files = {program.name: KEPT / engine / f"{_digest(program)}.json" for program in chosen}
    (KEPT / engine).mkdir(parents=True, exist_ok=True)
    missing = [program for program in chosen if again or not files[program.name].exists()]
    yield from ((p.name, _read(files[p.name])) for p in chosen if p not in missing)
    if not missing:
        return
    with closing(start(engine)) as process:
        for program in missing:
            files[program.name].write_text(json.dumps(process.call("run", steps=program.steps)))
            yield program.name, _read(files[program.name])


def _read(file: Path) -> dict[str, Answer]:
    told: dict[str, Answer] = json.loads(file.read_text())
    return told


def _digest(program: Program) -> str:
    return hashlib.sha256(json.dumps([FORM, program.steps]).encode()).hexdigest()[:20]


def _made_up(count: int) -> int:
    """Make up programs until one differs; that one is made as small as can be."""
    with closing(start(THEIRS)) as theirs, closing(start(OURS)) as ours:

        @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(made_up())
        def equal(program: Program) -> None:
            answers = [engine.call("run", steps=program.steps) for engine in (theirs, ours)]
            found = surprises(program, *(_of_rows(program, told) for told in answers))
            assert not found, "\n".join([*program.steps, "differs in", *found])

        try:
            equal()
        except AssertionError as error:
            print(error)
            return 1
    print(f"{count} programs made up, no surprise")
    return 0


def _of_rows(program: Program, told: dict[str, Answer]) -> dict[str, Answer]:
    """Answers without what a table says of itself and its files: the listed programs look at that."""
    of_files = {str(i) for i, step in enumerate(program.steps) if step.startswith(("OPTIMIZE", "RESTORE"))}
    return {
        step: answer
        for step, answer in told.items()
        if (step.isdigit() and step not in of_files) or step.startswith("@rows")
    }


def start(name: str) -> harness.Engine:
    """An engine, in the environment of the peers."""
    python = peers.HOME / "bin/python"
    return harness.Engine(
        [python, "-m", "tests.dropin.differential.engine", name],
        {"PYTHONPATH": str(peers.ROOT), "PYSPARK_PYTHON": str(python)},
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
