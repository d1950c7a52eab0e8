"""Makes the archive anew with the code at hand: `python -m tests.disk.make`, with Java for the streams.

The archive stands for what users have on disk. It is made before a format changes, never to make a test pass: what was
written once must stay readable, so an older archive is kept beside a newer one.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.storage.open import open_location
from tests.disk.delta_tables import applied_tables, indexed_table, kept_table, rows_table
from tests.disk.iceberg_tables import STORE, catalog, published_tables, rows_tables
from tests.disk.iceberg_tables import indexed_table as indexed_iceberg_table
from tests.disk.stream_tables import generated_table, stream_tables
from tests.disk.unpacked import ARCHIVE, EXPECTED
from tests.support.spark import start


def make(root: Path) -> dict[str, Any]:
    """Make all tables: on disk below a directory, and in memory; what they hold, by name."""
    delta = root / "delta"
    expected: dict[str, Any] = {
        "delta": {
            "rows": rows_table(delta / "rows"),
            "applied": applied_tables(delta),
            "indexed": indexed_table(delta / "indexed"),
            "kept": kept_table(delta / "kept"),
        }
    }
    tables = catalog()
    expected["iceberg"] = {**rows_tables(tables), "indexed": indexed_iceberg_table(tables)}
    expected["published"] = published_tables(tables)
    names = ("rows", "old", "grown", "indexed", "copy", "source")
    expected["metadata"] = {name: tables.load_table(f"db.{name}").metadata_location for name in names}
    spark = start("classic")
    expected["delta"]["generated"] = generated_table(spark, delta / "generated")
    expected["streams"] = stream_tables(spark, root / "streams")
    spark.stop()
    return expected


def packed(root: Path) -> Iterator[tuple[str, bytes, float]]:
    """Every file with its name in the archive and its time."""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(root)), path.read_bytes(), path.stat().st_mtime
    place = open_location(STORE)
    for meta in place.store.list_all(""):
        yield f"memory/{meta.key}", place.store.get(meta.key), meta.modified_ms / 1000


def main() -> None:
    """Write the archive and what it must read as."""
    with tempfile.TemporaryDirectory() as directory:
        expected = make(Path(directory))
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            for name, data, modified in packed(Path(directory)):
                info = tarfile.TarInfo(name)
                info.size, info.mtime = len(data), int(modified)
                archive.addfile(info, io.BytesIO(data))
    EXPECTED.write_text(json.dumps(expected, indent=1, default=str) + "\n")


if __name__ == "__main__":
    sys.exit(main())
