"""A table at one version, ready to be read: what to scan, what is hidden in it, and what helps to leave files out.

Whoever reads rows of a table (its own verbs, SQL, the drop-in, the command line) takes one of these and an engine, and
puts nothing together itself.

1. It is one version for good: what others commit is not in it.
2. Narrowing by a condition leaves out metadata of files in which no row can satisfy it; a scan gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from holdfast.model.snapshot import HiddenRows, LoadHidden, Snapshot
from holdfast.plan.engine import Engine
from holdfast.plan.scan.prune import Pruner
from holdfast.plan.scan.request import Request, ScanPlan, plan_scan
from holdfast.predicate.records import Predicate
from holdfast.verbs.read.explain import Explanation, explain

Frame = TypeVar("Frame")


@dataclass(frozen=True)
class OpenTable:
    """A table at one version, of whatever format."""

    snapshot: Snapshot
    load_hidden: LoadHidden
    pruners: Callable[[], tuple[Pruner, ...]] = tuple  # passes over files that row ids and indexes offer
    narrowed: Callable[[Predicate], OpenTable] | None = None  # None: all metadata is read anyway

    def plan(self, request: Request) -> tuple[ScanPlan, HiddenRows]:
        """What a scan reads, and the rows that are hidden in it."""
        if self.narrowed is not None and request.where is not None:
            return self.narrowed(request.where.predicate)._plan(request)
        return self._plan(request)

    def scan(self, request: Request, engine: Engine[Frame]) -> Frame:
        """The rows of a request, as the engine gives them."""
        return engine.scan(*self.plan(request))

    def explain(self, request: Request, engine: Engine[object]) -> Explanation:
        """What a scan of the request would read of all files, and why."""
        return explain(self.snapshot, request, engine, more=self.pruners())

    def _plan(self, request: Request) -> tuple[ScanPlan, HiddenRows]:
        plan = plan_scan(self.snapshot, request, more=self.pruners())
        return plan, self.load_hidden(self.snapshot.location, plan.files)
