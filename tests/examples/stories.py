"""Loads a story of examples/ as a module, as `python examples/<name>.py` would."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from tests.docs.pages import ROOT

EXAMPLES = ROOT / "examples"


def story(name: str) -> ModuleType:
    """The module of examples/<name>.py; its name is its own, so that no package of ours is shadowed."""
    known = f"holdfast_example_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module  # dataclasses look their module up while it is loaded
        spec.loader.exec_module(module)
    return sys.modules[known]
