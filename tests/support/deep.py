"""Tests whose depth can be chosen, those that are too long for a quick run, and what a deep run came to.

1. A test is deep where it is a property, or mentions the depth or anything of its module that follows from it.
2. A quick run leaves out what goes through many tables, or needs a process or server beside it: marked slow, golden or
   s3, deep without being a property, a sweep over every fault, and whatever starts a process.
3. A deep run says for each module how many tests and examples ran, and how long they took.
"""

from __future__ import annotations

import ast
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any

import pytest

from tests.support.depth import DEPTH, SEED

_DEPTH = frozenset({"DEPTH", "examples"})
_LONG = frozenset({"DEPTH", "every_fault", "FaultyStore", "FaultyWrites", "subprocess", "multiprocessing"})


def is_deep(item: pytest.Item) -> bool:
    """Whether a test goes deeper where that is asked for."""
    if item.get_closest_marker("hypothesis") is not None:
        return True
    return getattr(item, "originalname", item.name) in following(item.path, _DEPTH)


def is_quick(item: pytest.Item) -> bool:
    """Whether a test belongs to a quick run."""
    if any(item.get_closest_marker(mark) is not None for mark in ("slow", "golden", "s3")):
        return False
    is_property = item.get_closest_marker("hypothesis") is not None  # which runs a share of its examples
    names = following(item.path, _LONG if is_property else _LONG | _DEPTH)
    return getattr(item, "originalname", item.name) not in names


@cache
def following(path: Path, roots: frozenset[str]) -> frozenset[str]:
    """Names of a module whose definition mentions one of some names, or one of these."""
    defined: dict[str, set[str]] = defaultdict(set)
    for node in ast.parse(path.read_text()).body:
        mentioned = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        for name in _defined(node):
            defined[name] |= mentioned
    found = set(roots)
    while more := {name for name, mentioned in defined.items() if mentioned & found} - found:
        found |= more
    return frozenset(found)


def _defined(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case _:
            return set()


@dataclass(slots=True)
class Module:
    """What the tests of one file came to."""

    tests: int = 0
    examples: int = 0
    seconds: float = 0.0


class DeepRun:
    """Counts examples, and prints what ran before pytest's closing line."""

    def __init__(self) -> None:
        self.modules: defaultdict[str, Module] = defaultdict(Module)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        module = self.modules[str(item.path.name)]
        module.tests += 1
        handle = getattr(getattr(item, "obj", None), "hypothesis", None)
        if handle is not None:
            handle.inner_test = _counted(handle.inner_test, module)
        began = time.monotonic()
        try:
            return (yield)
        finally:
            module.seconds += time.monotonic() - began
            module.examples += sum(value for name, value in item.user_properties if name == "examples")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        terminalreporter.section(f"what ran, at depth {DEPTH} with HOLDFAST_SEED={SEED}")
        write(f"{'module':<36}{'tests':>7}{'examples':>10}{'seconds':>10}")
        for name, module in sorted(self.modules.items(), key=lambda entry: -entry[1].seconds):
            counted = str(module.examples) if module.examples else "-"
            write(f"{name:<36}{module.tests:>7}{counted:>10}{module.seconds:>10.1f}")


def _counted(test: Callable[..., Any], module: Module) -> Callable[..., Any]:
    @wraps(test)
    def run(*args: Any, **named: Any) -> Any:
        module.examples += 1
        return test(*args, **named)

    return run
