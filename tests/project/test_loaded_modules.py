"""What works without a session works without PySpark: it is not even loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast import DeltaTable

CALLS = {
    "toArrow": "import holdfast; assert holdfast.DeltaTable.forPath(None, {path!r}).toArrow().num_rows == 3",
    "changes": "import holdfast; assert holdfast.DeltaTable.forPath(None, {path!r}).changes(1).toArrow().num_rows == 3",
    "delete": "import holdfast; holdfast.DeltaTable.forPath(None, {path!r}).delete('id > 5')",
    "show": "holdfast.cli.main(['show', {path!r}], standalone_mode=False)",
    "lookup": "holdfast.cli.main(['lookup', {path!r}, 'id=2'], standalone_mode=False)",
    "check": "holdfast.cli.main(['check', {path!r}], standalone_mode=False)",
}
RUN = """
import sys
import holdfast.cli
{call}
loaded = sorted(name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j"))
assert not loaded, loaded[:5]
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("loaded") / "t"
    table = DeltaTable.create(None).location(place).addColumn("id", "long").execute()
    table.append(pa.table({"id": pa.array([1, 2, 3], pa.int64())}))
    return place


@pytest.mark.parametrize("name", CALLS)
def test_no_pyspark_is_loaded(name: str, path: Path, tmp_path: Path) -> None:
    call = RUN.format(call=CALLS[name].format(path=str(path)))
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
