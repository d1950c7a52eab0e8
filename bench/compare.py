"""Two versions of Holdfast side by side: the tree that this script lies in, and a commit before it.

    .venv/bin/python bench/compare.py --base COMMIT            2M rows, five rounds
    .venv/bin/python bench/compare.py --base COMMIT --quick    200,000 rows, three rounds

Each version runs in a process of its own, on copies of the same tables, in turn, round by round; a ratio is the time of
the base over ours, above 1 we are faster. Cases use the public names that both versions have.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from compare_engine import CASES
from harness import Engine

ROOT = Path(__file__).parents[1]
ROWS, QUICK_ROWS = 2_000_000, 200_000
SLOWEST = 0.95


def main() -> None:
    """Measure, and print a line per case."""
    parser = argparse.ArgumentParser(description="Two versions of Holdfast, case by case.")
    parser.add_argument("--base", required=True, help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("cases", nargs="*", help="words of the cases to run; without one, all")
    options = parser.parse_args()
    rows, rounds = (QUICK_ROWS, 3) if options.quick else (options.rows, options.rounds)
    cases = [name for name in CASES if not options.cases or any(word in name for word in options.cases)]
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as home:
        base = Path(home) / "base"
        subprocess.run(["git", "worktree", "add", "--detach", "-f", str(base), options.base], cwd=ROOT, check=True)
        try:
            print(*_measured(Path(home), {"base": base, "now": ROOT}, cases, rows, rounds), sep="\n")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(base)], cwd=ROOT, check=True)


def _measured(home: Path, trees: dict[str, Path], cases: list[str], rows: int, rounds: int) -> list[str]:
    engines = {name: _engine(tree) for name, tree in trees.items()}
    try:
        engines["base"].call("make", place=str(home / "tables"), rows=rows)
        seconds: dict[str, dict[str, list[float]]] = {case: {name: [] for name in trees} for case in cases}
        for number in range(rounds + 1):  # the first warms up
            for case in cases:
                for name in sorted(trees, reverse=bool(number % 2)):
                    place = home / f"{name}-tables"
                    shutil.copytree(home / "tables", place)
                    took = engines[name].call("run", case=case, place=str(place), rows=rows, number=number)["seconds"]
                    shutil.rmtree(place)
                    if number:
                        seconds[case][name].append(took)
    finally:
        for engine in engines.values():
            engine.close()
    lines = [f"{rows:,} rows, {rounds} rounds, medians in ms", f"{'case':<44}{'base':>10}{'now':>10}{'base/now':>10}"]
    for case, both in seconds.items():
        base, now = (statistics.median(both[name]) for name in ("base", "now"))
        mark = "" if base / now >= SLOWEST else "  slower"
        lines.append(f"{case:<44}{1000 * base:>10.1f}{1000 * now:>10.1f}{base / now:>10.2f}{mark}")
    return lines


def _engine(tree: Path) -> Engine:
    script = Path(__file__).with_name("compare_engine.py")
    return Engine([sys.executable, script], {**os.environ, "PYTHONPATH": str(tree / "src")})


if __name__ == "__main__":
    main()
