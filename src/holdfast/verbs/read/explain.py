"""Explains which files a scan would read, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from holdfast.model.snapshot import Snapshot
from holdfast.plan.engine import Engine
from holdfast.plan.scan.prune import Pruner, PruningStep
from holdfast.plan.scan.reasons import Reason, reasons
from holdfast.plan.scan.request import Request, plan_scan


@dataclass(frozen=True)
class Explanation:
    """What a scan would read: each pruning step, the files kept and why, and how they would be read."""

    table: str
    version: int
    condition: str | None
    files_total: int
    bytes_total: int
    files_read: int
    bytes_read: int
    rows_hidden: int
    steps: tuple[PruningStep, ...]
    kept: tuple[Reason, ...]  # the first of the files kept, each with why
    reading: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"table      {self.table}, version {self.version}",
            f"condition  {self.condition or 'none: every row'}",
            f"files      {self.files_read} of {self.files_total} are read, "
            f"{_bytes(self.bytes_read)} of {_bytes(self.bytes_total)}",
        ]
        for step in self.steps:
            detail = f" ({step.detail})" if step.detail else ""
            lines.append(f"  {step.name:<14} keeps {step.kept}, drops {step.dropped}{detail}")
        lines += [f"reading    {line}" for line in self.reading]
        if self.rows_hidden:
            rows = "1 row" if self.rows_hidden == 1 else f"{self.rows_hidden} rows"
            lines.append(f"           without {rows} hidden by deletion vectors")
        if self.kept:
            lines.append("kept       because")
            lines += [f"  {reason.file}: {'; '.join(reason.why)}" for reason in self.kept]
        if self.files_read > len(self.kept):
            lines.append(f"  and {self.files_read - len(self.kept)} more")
        lines += [f"note       {note}" for note in self.notes]
        return "\n".join(lines)

    __repr__ = __str__


def explain(
    snapshot: Snapshot, request: Request, engine: Engine[object], *, show_files: int = 10, more: Sequence[Pruner] = ()
) -> Explanation:
    """What a scan of this request would read; nothing of the data is. `more`: passes that others offer."""
    plan = plan_scan(snapshot, request, more=more)
    files = plan.files.table
    return Explanation(
        table=snapshot.location.url,
        version=snapshot.version,
        condition=None if request.where is None else request.where.text,
        files_total=len(snapshot.files),
        bytes_total=pc.sum(snapshot.files.column("size")).as_py() or 0,
        files_read=len(plan.files),
        bytes_read=pc.sum(files["size"]).as_py() or 0,
        rows_hidden=pc.sum(pc.struct_field(files["dv"], "cardinality")).as_py() or 0,
        steps=plan.steps,
        kept=reasons(plan, limit=show_files),
        reading=engine.describe(plan),
        notes=snapshot.notes,
    )


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
