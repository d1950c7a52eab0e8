"""The modules `delta`, `delta.tables`, `delta.exceptions` and `delta.pip_utils`, from an import hook.

1. No package is installed: without the hook there is no module `delta`.
2. The hook comes before other finders, so it works where delta-spark is installed too. Where delta-spark is loaded, the
   hook is refused.
3. Removing the hook unloads the modules; names that a program imported keep their objects.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from holdfast.errors import Unsupported

_OURS = __name__.rpartition(".")[0]


class DeltaModules(MetaPathFinder, Loader):
    """Finds and loads the modules; `contents` are their names and attributes."""

    def __init__(self, contents: Mapping[str, Mapping[str, object]]) -> None:
        self._contents = contents

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._contents:
            return None
        return ModuleSpec(fullname, self, origin=_OURS, is_package=fullname == "delta")

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        names = self._contents[module.__name__]
        vars(module).update(names)
        vars(module).update(__all__=sorted(names), __doc__=f"`{module.__name__}` of delta-spark, by Holdfast.")


def install(contents: Mapping[str, Mapping[str, object]]) -> None:
    """Install the hook, once."""
    refuse_loaded()
    if not any(isinstance(finder, DeltaModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, DeltaModules(contents))


def remove() -> None:
    """Remove the hook."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, DeltaModules)]
    for name in [name for name, module in sys.modules.items() if _is_of_delta(name) and _is_ours(module)]:
        del sys.modules[name]


def refuse_loaded() -> None:
    """Refuse a process that has loaded the real delta-spark."""
    loaded = sys.modules.get("delta")
    if loaded is not None and not _is_ours(loaded):
        where = getattr(loaded, "__file__", None) or "a package of that name"
        raise Unsupported(
            f"the module delta is loaded already, from {where}: in one process there is either delta-spark or Holdfast "
            "in its place. Call holdfast.enable(), or import holdfast.dropin, before anything imports delta"
        )


def _is_of_delta(name: str) -> bool:
    return name == "delta" or name.startswith("delta.")


def _is_ours(module: ModuleType) -> bool:
    spec = getattr(module, "__spec__", None)
    return spec is not None and spec.origin == _OURS
