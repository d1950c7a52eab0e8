"""Loads faiss, which the extra `holdfast[vector]` installs, when an index that needs it is trained or searched."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from holdfast.errors import Invalid

PACKAGE = "faiss"
INSTALL = "pip install 'holdfast[vector]'"


class NoLibrary(Invalid):
    """The extra is not installed."""


def library() -> ModuleType:
    try:
        return import_module(PACKAGE)
    except ImportError as error:
        raise NoLibrary(
            f"this vector index is trained and searched with faiss, which is not installed ({error}): {INSTALL}; "
            "an index of method='flat' and a search without an index need no extra"
        ) from error
