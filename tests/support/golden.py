"""Where the golden tables are, if they are: tables written by other engines, outside this repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _find() -> Path | None:
    named = os.environ.get("HOLDFAST_GOLDEN")
    place = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "golden"
    return place if place.is_dir() else None


GOLDEN: Path | None = _find()


def require_golden() -> Path:
    """The golden tables; without them the test is skipped, or fails where they are required."""
    if GOLDEN is not None:
        return GOLDEN
    message = "no golden tables: set HOLDFAST_GOLDEN to their directory"
    if os.environ.get("HOLDFAST_GOLDEN_REQUIRED") == "1":
        pytest.fail(message)
    pytest.skip(message)
