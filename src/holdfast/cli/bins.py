"""What a compaction or a clustering did, or would do."""

from __future__ import annotations

import re
from typing import Any

import click

from holdfast.cli.commit_summary import told
from holdfast.cli.output import Answer
from holdfast.cli.screen import Head, count_text, grid, say, size_text

_SHOWN = 20
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def size(text: str) -> int:
    """A number of bytes as people write it: 1000000, 128MB, 2GB."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", text.lower())
    if match is None:
        raise click.BadParameter(f"{text!r} is no size: write it as 1000000, 128MB or 2GB")
    return int(match[1]) * _UNITS[match[2]]


def tell_bins(answer: Answer, plan: Any) -> None:
    """What would be written together; `plan` has bins, and how many files were looked at."""
    bins = plan.bins
    if answer.as_json:
        told_bins = [{"files": b.keys, "rows": b.rows, "bytes": b.bytes, "why": b.why} for b in bins]
        answer.lines([{"dry_run": True, "files": plan.of, "bytes": plan.bytes, "bins": told_bins}])
        return
    if not bins:
        say(f"nothing to do: {count_text(plan.of, 'file')} looked at")
        return
    files = sum(len(b.files) for b in bins)
    say(f"would write {count_text(files)} of {count_text(plan.of, 'file')} anew, about {size_text(plan.bytes)}:")
    heads = [Head("files", right=True), Head("rows", right=True), Head("size", right=True), Head("because")]
    grid(heads, [(len(b.files), count_text(b.rows), size_text(b.bytes), b.why) for b in bins[:_SHOWN]])
    if len(bins) > _SHOWN:
        say(f"and {count_text(len(bins) - _SHOWN)} more such groups")
    say("nothing was written", style="dim")


def tell_compacted(answer: Answer, done: Any, *, chosen: int | None = None) -> None:
    """What came of it; `done` is a Compacted, `chosen` the version that chose other columns to cluster by."""
    if answer.as_json:
        fields = {
            "versions": done.versions,
            "metrics": dict(done.metrics),
            "lost": done.lost,
            "left": done.left,
            "bins": done.bins,
        }
        answer.lines([{**fields, "held": done.held, "chosen": chosen}])
        return
    if chosen is not None:
        say(f"version {chosen}: clustered by other columns from now on")
    if not done.versions and not done.lost:
        say("nothing to do: nothing was written")
    elif done.versions:
        first, last = done.versions[0], done.versions[-1]
        where = f"version {first}" if first == last else f"versions {first} to {last}"
        say(f"{where}: {told(done.metrics)}")
    for loss in done.lost:
        say(f"left to another writer: {loss}", style="yellow")
