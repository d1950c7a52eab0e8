"""Which modules opening a table imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.formats.delta.handlog import add, metadata, parquet, protocol, remove, vector

OPEN = """
import sys
from holdfast.formats.delta.state import load, refresh
from holdfast.storage.open import open_location
state = load(open_location(sys.argv[1]))
before = state.snapshot.files.table.num_rows
(open(sys.argv[1] + "/_delta_log/" + "2".zfill(20) + ".json", "wb")).write(open(sys.argv[2], "rb").read())
state = refresh(state)
print(before, len(state.snapshot.files), state.version, sorted({"pandas", "pyspark", "sqlglot"} & sys.modules.keys()))
"""


def test_opening_and_refreshing_load_neither_pandas_nor_spark(tmp_path: Path) -> None:
    """pyarrow imports pandas as soon as it is handed a plain Python value; half of the first opening went there."""
    log = tmp_path / "t/_delta_log"
    log.mkdir(parents=True)
    start = [protocol(3, 7, rf=["deletionVectors"]), metadata(partitions=["day"])]
    adds = [
        add(f"day={n}/a{n}", partitionValues={"day": str(n)}, dv=vector(f"{n}") if n % 2 else None) for n in range(4)
    ]
    (log / f"{0:020d}.checkpoint.parquet").write_bytes(parquet([*start, *adds]))
    (log / f"{1:020d}.json").write_text("".join(json.dumps(a) + "\n" for a in (remove("day=0/a0"), add("x%20y/b"))))
    newest = tmp_path / "2.json"
    newest.write_text(json.dumps(add("c", dv=vector("c"))) + "\n" + json.dumps(remove("day=2/a2")) + "\n")
    process = subprocess.run(
        [sys.executable, "-c", OPEN, str(tmp_path / "t"), str(newest)], capture_output=True, text=True, check=True
    )
    assert process.stdout.split(maxsplit=3) == ["4", "4", "2", "[]\n"]
