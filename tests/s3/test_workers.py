"""What is sent to a worker needs no Holdfast there, and says what it does need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from holdfast.engines.spark.scan.arrow_path import _WORKERS_NEED, _packed, _reader, _unpacking
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.state import load
from holdfast.plan.scan.request import Request, plan_scan
from holdfast.plan.scan.tasks import planned_files, read_spec
from holdfast.storage.open import open_location
from tests.s3.conftest import Place
from tests.support.reading import IDS
from tests.support.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.tablesmith import Tablesmith

pytestmark = pytest.mark.s3

WORKER = """
import pickle, sys
for name in sys.argv[2:]:
    sys.modules[name] = None  # importing it fails
read, batches = pickle.load(open(sys.argv[1], "rb"))
print(sorted(row["_row_id"] for batch in read(batches) for row in batch.to_pylist()))
assert not [name for name in sys.modules if name.startswith("holdfast") and sys.modules[name]]
"""


def worker(tmp_path: Path, smith: Tablesmith, s3: S3Server, *lacking: str) -> subprocess.CompletedProcess[str]:
    """Read a table as a Spark worker would, in a process of its own that lacks Holdfast and these packages."""
    location = open_location(smith.url, storage_options=s3.options)
    snapshot = load(location).snapshot
    plan = plan_scan(snapshot, Request(metadata=IDS))
    files = planned_files(plan, load_hidden(location, plan.files))
    tasks = [_packed(location.store.url, location.store_key(file.key), file.task) for file in files]
    read = _unpacking(_reader({location.store.url: location.store}, read_spec(plan)), _WORKERS_NEED)
    batch = pa.record_batch({"task": pa.array(tasks, pa.binary())})
    (tmp_path / "task").write_bytes(cloudpickle.dumps((read, [batch])))
    command = [sys.executable, "-c", WORKER, str(tmp_path / "task"), "holdfast", *lacking]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)


def test_a_worker_reads_hidden_rows_ids_and_all_types(tmp_path: Path, s3: S3Server, whole: Tablesmith) -> None:
    done = worker(tmp_path, whole, s3)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(sorted(row["_row_id"] for row in whole.rows()))


@pytest.mark.parametrize("fate", ["missing", "empty", "torn"])
def test_errors_of_the_store_travel_too(tmp_path: Path, s3: S3Server, place: Place, fate: str) -> None:
    smith = Tablesmith(place(), schema=[("a", "long")])
    smith.append([{"a": 1}])
    file = unquote(smith.live()[0]["path"])
    if fate == "missing":
        smith.delete(file)
    else:
        smith.put(file, b"" if fate == "empty" else b"PAR1 torn")
    done = worker(tmp_path, smith, s3)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("holdfast.errors.MissingFile: " if fate == "missing" else "holdfast.errors.Damaged: ")
    assert f"{smith.url}/{file}" in last or smith.url.replace(" ", "%20") in last
    assert SECRET_KEY not in done.stderr
    assert ACCESS_KEY not in done.stderr


def test_a_worker_that_lacks_a_package_says_so(tmp_path: Path, s3: S3Server, whole: Tablesmith) -> None:
    done = worker(tmp_path, whole, s3, "obstore")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("holdfast.errors.Unavailable: Spark's Python workers read this table with obstore, which ")
    assert sys.executable in last
    assert "install numpy, pyroaring, obstore there" in last
