"""What a command that writes did, or would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.cli.commit_summary import told
from holdfast.cli.output import Answer
from holdfast.cli.screen import Head, count_text, facts, grid, say, size_text

_FILES_SHOWN = 20


def tell_done(answer: Answer, done: Any, *, nothing: str) -> None:
    """What a commit did; `done` has a version, metrics and attempts. `nothing` is said where there was none."""
    if answer.as_json:
        answer.lines([{"version": done.version, "metrics": dict(done.metrics), "attempts": done.attempts}])
        return
    if done.version is None:
        say(nothing)
        return
    said = told(done.metrics)
    say(f"version {done.version}{': ' if said else ''}{said}")
    if done.attempts > 1:
        say(f"others wrote meanwhile: it took {done.attempts} attempts", style="dim")
    if done.auto is not None:
        say(f"followed by a compaction: {done.auto}", style="dim")


def tell_plan(answer: Answer, plan: Any) -> None:
    """What a change would do; `plan` is a ChangePlan."""
    if answer.as_json:
        answer.lines([{"dry_run": True, **_fields(plan)}])
        return
    rows = ", ".join(f"{count_text(n, 'row')} {what}" for what, n in plan.rows.items() if n) or "no row changes"
    facts(
        [
            (f"{plan.operation} would be", rows),
            ("files searched", count_text(plan.files)),
            ("to write", f"about {size_text(plan.bytes_written)}"),
            *(("schema", text) for text in plan.schema_changes),
            *(("note", text) for text in plan.notes),
        ]
    )
    if plan.strategies:
        say("")
        heads = [Head("file", cut=True), Head("rows", right=True), Head("of", right=True), Head("is"), Head("because")]
        shown = plan.strategies[:_FILES_SHOWN]
        grid(heads, [(s.key.rpartition("/")[2], s.rows, s.of, s.how, s.why) for s in shown])
        if len(plan.strategies) > len(shown):
            say(f"and {count_text(len(plan.strategies) - len(shown), 'file')} more")
    say("nothing was written", style="dim")


def tell_wish(answer: Answer, what: str, wish: Mapping[str, Any]) -> None:
    """What something simple would do: a sentence, and the same as fields."""
    if answer.as_json:
        answer.lines([{"dry_run": True, **wish}])
        return
    say(what)
    say("nothing was written", style="dim")


def _fields(plan: Any) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in plan.__dataclass_fields__}
