"""Reports what a writing command did, or with `--dry-run` would do.

Summaries are made from the metrics in commits, of Delta and Iceberg and of any writer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import click

from holdfast.cli.output import Answer
from holdfast.cli.screen import Head, count_text, facts, grid, say, size_text

_SHOWN = 20  # files or bins that are listed
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_ROWS = (
    ("inserted", ("numInsertedRows", "numTargetRowsInserted")),
    ("updated", ("numUpdatedRows", "numTargetRowsUpdated")),
    ("deleted", ("numDeletedRows", "numTargetRowsDeleted")),
    ("copied", ("numCopiedRows", "numTargetRowsCopied")),
)
_WRITTEN = ("numOutputRows", "added-records")
_FILES = (
    ("+", ("numAddedFiles", "numTargetFilesAdded", "numFiles", "added-data-files")),
    ("-", ("numRemovedFiles", "numTargetFilesRemoved", "deleted-data-files")),
)
_OTHER = (
    ("deletion vector", "added", ("numDeletionVectorsAdded", "numTargetDeletionVectorsAdded", "added-dvs")),
    ("row", "deleted", ("deleted-records",)),
    ("file", "restored", ("numRestoredFiles",)),
    ("file", "to delete", ("numFilesToDelete",)),
    ("file", "deleted", ("numDeletedFiles",)),
    ("file", "with new ids", ("numReaddedFiles",)),
)


def report_commit(answer: Answer, commit: Any, *, nothing: str) -> None:
    """Report a commit, which has a version, metrics and attempts; print `nothing` if there was none."""
    if answer.as_json:
        answer.lines([{"version": commit.version, "metrics": dict(commit.metrics), "attempts": commit.attempts}])
        return
    if commit.version is None:
        say(nothing)
        return
    summary = summary_of(commit.metrics)
    say(f"version {commit.version}{': ' if summary else ''}{summary}")
    if commit.attempts > 1:
        say(f"others wrote meanwhile: it took {commit.attempts} attempts", style="dim")
    if commit.auto is not None:
        say(f"followed by a compaction: {commit.auto}", style="dim")


def report_plan(answer: Answer, plan: Any) -> None:
    """Report what a change would do; `plan` is a ChangePlan."""
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
        strategies = plan.strategies[:_SHOWN]
        grid(heads, [(s.key.rpartition("/")[2], s.rows, s.of, s.how, s.why) for s in strategies])
        if len(plan.strategies) > len(strategies):
            say(f"and {count_text(len(plan.strategies) - len(strategies), 'file')} more")
    say("nothing was written", style="dim")


def report_dry_run(answer: Answer, what: str, wish: Mapping[str, Any]) -> None:
    """Report what a command would do: a sentence, or the same as JSON fields."""
    if answer.as_json:
        answer.lines([{"dry_run": True, **wish}])
        return
    say(what)
    say("nothing was written", style="dim")


def report_bins(answer: Answer, plan: Any) -> None:
    """Report the bins that a compaction or clustering would write."""
    bins = plan.bins
    if answer.as_json:
        listed = [{"files": b.keys, "rows": b.rows, "bytes": b.bytes, "why": b.why} for b in bins]
        answer.lines([{"dry_run": True, "files": plan.of, "bytes": plan.bytes, "bins": listed}])
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


def report_compaction(answer: Answer, result: Any, *, chosen: int | None = None) -> None:
    """Report a compaction (a Compacted); `chosen` is the version that set other clustering columns."""
    if answer.as_json:
        fields = {
            "versions": result.versions,
            "metrics": dict(result.metrics),
            "lost": result.lost,
            "left": result.left,
            "bins": result.bins,
        }
        answer.lines([{**fields, "held": result.held, "chosen": chosen}])
        return
    if chosen is not None:
        say(f"version {chosen}: clustered by other columns from now on")
    if not result.versions and not result.lost:
        say("nothing to do: nothing was written")
    elif result.versions:
        first, last = result.versions[0], result.versions[-1]
        where = f"version {first}" if first == last else f"versions {first} to {last}"
        say(f"{where}: {summary_of(result.metrics)}")
    for loss in result.lost:
        say(f"left to another writer: {loss}", style="yellow")


def summary_of(metrics: Mapping[str, Any]) -> str:
    """The metrics of a commit in words: rows, then files; zeros are left out."""
    return ", ".join((*_rows(metrics), *_files(metrics), *_others(metrics)))


def size(text: str) -> int:
    """Parse a number of bytes: 1000000, 128MB, 2GB."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", text.lower())
    if match is None:
        raise click.BadParameter(f"{text!r} is no size: write it as 1000000, 128MB or 2GB")
    return int(match[1]) * _UNITS[match[2]]


def _fields(plan: Any) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in plan.__dataclass_fields__}


def _rows(metrics: Mapping[str, Any]) -> Iterator[str]:
    changed = [(word, _first(metrics, names)) for word, names in _ROWS]
    if not any(count for _, count in changed):
        if written := _first(metrics, _WRITTEN):
            yield f"{count_text(written, 'row')} written"
        return
    yield from (f"{count_text(count, 'row')} {word}" for word, count in changed if count)


def _files(metrics: Mapping[str, Any]) -> Iterator[str]:
    counts = [(sign, _first(metrics, names)) for sign, names in _FILES]
    signed_counts = [f"{sign}{count:,}" for sign, count in counts if count]
    if signed_counts:
        yield f"{' '.join(signed_counts)} {'file' if sum(count for _, count in counts) == 1 else 'files'}"


def _others(metrics: Mapping[str, Any]) -> Iterator[str]:
    for noun, word, names in _OTHER:
        if count := _first(metrics, names):
            yield f"{count_text(count, noun)} {word}"


def _first(metrics: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """The first of these metrics that is not zero; writers store them as text."""
    for name in names:
        value = str(metrics.get(name, ""))
        if value.isdigit() and int(value):
            return int(value)
    return 0
