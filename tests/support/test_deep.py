"""Which tests go deeper where that is asked for, and which are left out of a quick run."""

from __future__ import annotations

from pathlib import Path

from tests.support.deep import _DEPTH, _LONG, following

MODULE = """
from tests.support.depth import DEPTH, examples
RUNS = 3 * DEPTH
FEW = 2

class Stories: steps = RUNS

def helper(): return RUNS
def test_counts(): assert DEPTH
def test_by_constant(): assert RUNS
def test_by_helper(): helper()
def test_by_class(): Stories()
def test_machine(): run(settings=examples(3))
def test_shallow(): assert FEW
def test_sweep(): every_fault(run, check)
def test_process(): subprocess.run("true")
"""


def test_what_mentions_the_depth_is_deep_and_what_takes_long_is_known(tmp_path: Path) -> None:
    module = tmp_path / "test_some.py"
    module.write_text(MODULE)
    deep = {name for name in following(module, _DEPTH) if name.startswith("test_")}
    assert deep == {"test_counts", "test_by_constant", "test_by_helper", "test_by_class", "test_machine"}
    long = {name for name in following(module, _LONG) if name.startswith("test_")}
    assert long == deep - {"test_machine"} | {"test_sweep", "test_process"}
