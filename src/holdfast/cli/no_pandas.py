"""A process without pandas: Arrow looks for it when it makes its first array, and half of a short command is that.

Nothing here uses pandas but PySpark, when it runs. So commands that start no Spark leave it out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _Without(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ImportError("this command runs without pandas")


def leave_pandas_out() -> None:
    """From now on, in this process, pandas is not found, unless it is there already."""
    if not any(isinstance(finder, _Without) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Without())
