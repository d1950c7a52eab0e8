"""The formats of data files that both engines read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Unsupported
from holdfast.plan.scan.request import ScanPlan

_READ = ("parquet", "orc")


def refuse_formats(plan: ScanPlan) -> None:
    """Refuse a plan with a file of a format that nobody here reads, which the table's metadata tells."""
    if plan.snapshot.placement is None or not len(plan.files):
        return
    formats = plan.files.column("format").combine_chunks()
    other = pc.invert(pc.is_in(formats, value_set=pa.array(_READ)))
    if (at := pc.index(other, True).as_py()) >= 0:
        path, count = plan.files.column("path")[at].as_py(), pc.sum(other).as_py()
        also = f" (one of {files_text(count)})" if count > 1 else ""
        raise Unsupported(
            f"{path} is an {formats[at]} file{also}; Holdfast reads data files of Parquet and ORC: have the "
            "engine that wrote it rewrite it as one of these"
        )


def files_text(count: int) -> str:
    """A number of files, for people."""
    return "1 file" if count == 1 else f"{count} files"
