"""The logs of all golden tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from holdfast.errors import Damaged, NotATable, Unsupported
from holdfast.formats.delta.state import load
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from tests.support.golden import GOLDEN, require_golden

CASES = sorted(GOLDEN.glob("delta/*/case.json")) if GOLDEN else []
LOADS = {"readable", "log-only", "readable-after-prep"}
REFUSED = {"negative": (Damaged, NotATable, Unsupported), "needs-catalog": (Unsupported,)}

# Removed under another spelling of the path than it was added under. The case counts paths as text; they are one file.
RECONCILED_BY_SPELLING = {
    f"delta-kernel-rs__canonicalized-paths-{kind}" for kind in ("normal-a", "normal-b", "special-a", "special-b")
}


def test_golden_tables_are_there() -> None:
    assert len(list(require_golden().glob("delta/*/case.json"))) == len(CASES)
    assert len(CASES) > 380


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.parent.name)
def test_the_log_says_what_the_case_says(path: Path) -> None:
    case = json.loads(path.read_text())
    location = open_location(str(path.parent / "table"))
    if "absolute-paths" in case["features"]:
        location = replace(location, allow_outside=True)
    if case["status"] in LOADS:
        _check(case, location)
    elif case["status"] in REFUSED:
        with pytest.raises(REFUSED[case["status"]]):
            load(location)
    else:
        with pytest.raises((Unsupported, Damaged), match=r"geospatial|reader version|partition column"):
            load(location)


def _check(case: dict[str, Any], location: Location) -> None:
    state = load(location)
    snapshot = state.snapshot
    vectors = snapshot.files.column("dv").combine_chunks()
    assert snapshot.version == case["version"]
    assert list(snapshot.schema.names)[:40] == case["columns"][:40]
    assert list(snapshot.partition_columns) == case["partition_columns"]
    assert len(snapshot.files) == (0 if case["id"] in RECONCILED_BY_SPELLING else case["active_files"])
    assert len(vectors) - vectors.null_count == case["dv_files"]
    assert (pc.sum(pc.struct_field(vectors, "cardinality")).as_py() or 0) == case["dv_rows"]
    expected = case["protocol"]
    assert (state.protocol.min_reader_version, state.protocol.min_writer_version) == (expected["r"], expected["w"])
    assert set(state.protocol.reader_features or ()) == set(expected["rf"] or ())
    assert set(state.protocol.writer_features or ()) == set(expected["wf"] or ())
    for version in case.get("expected_rows_by_version") or {}:
        assert load(location, version=int(version)).version == int(version)
