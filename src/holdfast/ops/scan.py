"""Read rows: plan, fetch the vectors of the planned files, run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from holdfast.model.files import FileTable
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.prune import Pruner
from holdfast.plan.run import Runner
from holdfast.plan.scan import Request, plan_scan
from holdfast.storage.location import Location

Frame = TypeVar("Frame")
LoadHidden: TypeAlias = Callable[[Location, FileTable], HiddenRows]  # a format's way to read its vectors


def scan(
    snapshot: Snapshot,
    request: Request,
    runner: Runner[Frame],
    load_hidden: LoadHidden,
    more: Sequence[Pruner] = (),
) -> Frame:
    """The rows asked for, as the runner gives them; `more` are passes over the files that others offer."""
    plan = plan_scan(snapshot, request, more=more)
    return runner.scan(plan, load_hidden(snapshot.location, plan.files))
