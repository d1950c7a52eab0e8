"""What moves data: the protocol both runners implement."""

from __future__ import annotations

from typing import Protocol, TypeVar

from holdfast.model.snapshot import HiddenRows
from holdfast.plan.scan import ScanPlan

Frame_co = TypeVar("Frame_co", covariant=True)


class Runner(Protocol[Frame_co]):
    """Runs plans: on Spark, giving DataFrames, or in this process, giving Arrow tables."""

    def scan(self, plan: ScanPlan, hidden: HiddenRows) -> Frame_co:
        """The rows a plan asks for. Every planned file is read, or this or its first use raises."""

    def describe(self, plan: ScanPlan) -> tuple[str, ...]:
        """How the plan would be read, in sentences for people."""


def files_text(count: int) -> str:
    """A number of files, for people."""
    return "1 file" if count == 1 else f"{count} files"
