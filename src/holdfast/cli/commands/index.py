"""`holdfast index`: the indexes of a table."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from holdfast.cli.command import dry_run_option, on_table, pairs, spark_option
from holdfast.cli.output import Answer
from holdfast.cli.screen import Head, count_text, facts, grid, say, size_text
from holdfast.cli.target import Target, columns_of
from holdfast.cli.write_result import report_dry_run
from holdfast.errors import Invalid
from holdfast.plan.dml.arithmetic import live_rows
from holdfast.plan.scan.request import known_columns, refuse_unknown
from holdfast.terminal import phase
from holdfast.verbs.index.maintain import kind_of, refuse_unable


@click.group("index")
def command() -> None:
    """Indexes: list, create, refresh, rebuild, drop, verify, stats."""


@command.command("list")
@on_table()
def list_(target: Target, answer: Answer) -> None:
    """The indexes of a table."""
    indexes = target.table().indexes()
    if answer.as_json:
        answer.lines(indexes)
        return
    if not indexes:
        say("the table has no index: `holdfast index create TABLE COLUMN` makes one")
        return
    heads = [
        Head("name"),
        Head("kind", whole=True),
        Head("columns"),
        Head("entries", right=True),
        Head("size", right=True),
        Head("version", right=True),
        Head(""),
    ]
    grid(heads, [_line(info) for info in indexes])


@command.command("create")
@on_table()
@click.argument("columns", nargs=-1, required=True, metavar="COLUMN...")
@click.option("--name", help="What to call it; else by its columns.")
@click.option("--kind", default="btree", show_default=True, help="btree, bitmap (few different values) or vector.")
@click.option("--synchronous", is_flag=True, help="Refresh it after every write by Holdfast.")
@click.option(
    "--option", "-o", "options", multiple=True, metavar="NAME=VALUE", callback=pairs, help="What its kind can be told."
)
@dry_run_option
@spark_option
def create(
    target: Target,
    answer: Answer,
    columns: tuple[str, ...],
    name: str | None,
    kind: str,
    synchronous: bool,
    options: tuple[tuple[str, str], ...],
    dry_run: bool,
    spark: bool,
) -> None:
    """Index one or several columns, so that lookups and scans find rows by them."""
    names = columns_of(columns) or []
    state = target.delta()
    snapshot, schema = state.snapshot, known_columns(state.snapshot, ())
    refuse_unknown(names, schema)
    more = {option: _value(value) for option, value in options}
    table = target.table(spark=spark and not dry_run)
    if dry_run:
        fields = tuple(f for n in names if (f := schema.find(n)) is not None)
        refuse_unable(state)
        kind_of(kind).define(snapshot, fields, more)  # refuses what it cannot do
        names_taken = {info.name for info in table.indexes()}
        index_name = name or "_".join(names)
        if index_name in names_taken:
            raise Invalid(f"there is an index {index_name!r} already: drop it, rebuild it, or choose another name")
        rows = sum(n or 0 for n in live_rows(snapshot.files))
        what = f"would index {count_text(rows, 'row')} in {count_text(len(snapshot.files), 'file')} as {index_name}"
        report_dry_run(answer, what, {"name": index_name, "kind": kind, "columns": names, "rows": rows})
        return
    with phase("reading columns and writing the index"):
        info = table.createIndex(names, name=name, kind=kind, **more, **({"synchronous": True} if synchronous else {}))
    _tell(answer, info)


@command.command("refresh")
@on_table()
@click.argument("name")
@dry_run_option
@spark_option
def refresh(target: Target, answer: Answer, name: str, dry_run: bool, spark: bool) -> None:
    """Index what was written since; costs what was written."""
    table = target.table(spark=spark)
    if dry_run:
        stats = table.indexStats(name)
        what = f"would index {count_text(stats.tail_rows, 'row')} of {count_text(stats.tail_files, 'file')} more"
        report_dry_run(answer, what, {"name": name, "rows": stats.tail_rows, "files": stats.tail_files})
        return
    with phase("indexing what is new"):
        info = table.refreshIndex(name)
    _tell(answer, info)


@command.command("rebuild")
@on_table()
@click.argument("name")
@dry_run_option
@spark_option
def rebuild(target: Target, answer: Answer, name: str, dry_run: bool, spark: bool) -> None:
    """Make an index anew from every row; until then the old one answers."""
    table = target.table(spark=spark)
    if dry_run:
        info = table.indexStats(name).info
        report_dry_run(
            answer,
            f"would make {name} anew, with {count_text(info.entries, 'entry', plural='entries')} now",
            {"name": name},
        )
        return
    with phase("reading columns and writing the index"):
        info = table.rebuildIndex(name)
    _tell(answer, info)


@command.command("drop")
@on_table()
@click.argument("name")
@dry_run_option
def drop(target: Target, answer: Answer, name: str, dry_run: bool) -> None:
    """Take an index away; its files go with a later vacuum."""
    table = target.table()
    if dry_run:
        info = table.indexStats(name).info
        report_dry_run(answer, f"would drop {name}, {size_text(info.bytes)}", {"name": name, "bytes": info.bytes})
        return
    table.dropIndex(name)
    if answer.as_json:
        answer.lines([{"name": name, "dropped": True}])
    else:
        say(f"{name} is dropped; its files go with a later vacuum")


@command.command("stats")
@on_table()
@click.argument("name")
def stats(target: Target, answer: Answer, name: str) -> None:
    """What an index holds, and what it leaves to be scanned."""
    with phase("looking at the index"):
        index_stats = target.table().indexStats(name)
    if answer.as_json:
        answer.lines([index_stats])
        return
    info, tail_rows = index_stats.info, count_text(index_stats.tail_rows, "row")
    facts(
        [
            ("index", f"{info.name}, {info.kind} on {', '.join(info.columns)}"),
            (
                "entries",
                f"{count_text(info.entries)} in {count_text(info.segments, 'segment')}, {size_text(info.bytes)}",
            ),
            ("complete for", f"version {info.version}{', refreshed after every write' if info.synchronous else ''}"),
            ("beside it", f"{tail_rows} in {count_text(index_stats.tail_files, 'file')} are scanned"),
            *([] if index_stats.dead_share is None else [("dead entries", f"{index_stats.dead_share:.1%}")]),
            *((name_, value) for name_, value in index_stats.extra.items()),
            *([] if info.unusable is None else [("not usable", info.unusable)]),
        ]
    )


@command.command("verify")
@on_table()
@click.argument("name")
@click.option("--sample", type=click.IntRange(min=1), help="Compare so many entries and rows; else all.")
@spark_option
def verify(target: Target, answer: Answer, name: str, sample: int | None, spark: bool) -> None:
    """Compare an index with its table; exit code 1 where they differ."""
    with phase("comparing the index with the table"):
        verdict = target.table(spark=spark).verifyIndex(name, sample)
    if answer.as_json:
        answer.lines([{"name": verdict.name, "right": verdict.is_right, "troubles": verdict.troubles}])
    else:
        say(f"{name} is {'right' if verdict.is_right else 'wrong'}", style="green" if verdict.is_right else "bold red")
        for trouble in verdict.troubles:
            say(trouble)
    sys.exit(0 if verdict.is_right else 1)


def _line(info: Any) -> list[Any]:
    return [
        info.name,
        info.kind,
        ", ".join(info.columns),
        count_text(info.entries),
        size_text(info.bytes),
        info.version,
        "" if info.unusable is None else f"not usable: {info.unusable}",
    ]


def _tell(answer: Answer, info: Any) -> None:
    if answer.as_json:
        answer.lines([info])
        return
    entries = count_text(info.entries, "entry", plural="entries")
    say(
        f"{info.name} ({info.kind} on {', '.join(info.columns)}): {entries}, {size_text(info.bytes)}, "
        f"complete for version {info.version}"
    )


def _value(text: str) -> object:
    """An option as a number or boolean, if it looks like one; else text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
