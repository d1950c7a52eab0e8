"""faiss, where it is installed: the one place that asks for it.

It comes with the extra `holdfast[vector]`, so nothing loads it before an index that needs it is trained or searched.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from holdfast.errors import Invalid

PACKAGE = "faiss"
INSTALL = "pip install 'holdfast[vector]'"


class NoLibrary(Invalid):
    """The extra is not installed."""


def library() -> Any:
    """The module, or a sentence that says how to get it."""
    try:
        return import_module(PACKAGE)
    except ImportError as error:
        raise NoLibrary(
            f"this vector index is trained and searched with faiss, which is not installed ({error}): {INSTALL}; "
            "an index of method='flat' and a search without an index need no extra"
        ) from error
