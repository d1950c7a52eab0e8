"""`holdfast check`: is the table sound, and what can be done about it.

1. The exit code is 1 exactly when something is wrong that a repair, if asked for, did not put right.
"""

from __future__ import annotations

import sys

import click
from rich.text import Text

from holdfast.cli.command import dry_run_option, on_table, spark_option
from holdfast.cli.output import Answer
from holdfast.cli.screen import Head, count_text, grid, say
from holdfast.cli.target import Target
from holdfast.terminal import phase


@click.command("check")
@on_table(iceberg=True)
@click.option("--repair", is_flag=True, help="Repair what can be repaired safely; data files are never touched.")
@click.option("--drop-missing", is_flag=True, help="With --repair: take files that are gone out of the table.")
@click.option("--quick", is_flag=True, help="Look at the log and at file sizes, not into files.")
@dry_run_option
@spark_option
def command(
    target: Target, answer: Answer, repair: bool, drop_missing: bool, quick: bool, dry_run: bool, spark: bool
) -> None:
    """Is the table sound? Repair what can be repaired safely.

    Checks the log or the metadata, the files, and every row id. Exit code 1 where something is wrong.
    """
    if drop_missing and not repair:
        raise click.UsageError("--drop-missing takes files out of the table, which is a repair: say --repair too")
    writes = repair and not dry_run
    table = target.either(spark=spark)
    with phase("checking the table"):
        report = table.check(deep=not quick, repair=writes, dropMissing=writes and drop_missing)
    if answer.as_json:
        findings = [
            {
                "kind": f.kind.value,
                "harmless": f.kind.is_harmless,
                "what": f.what,
                "file": f.file,
                "version": f.version,
                "repair": f.repair,
                "count": f.count,
            }
            for f in report.findings
        ]
        line = {"table": report.table, "version": report.version, "files": report.files, "deep": report.deep}
        answer.lines([{**line, "clean": report.clean, "findings": findings, "repaired": report.repaired}])
        sys.exit(0 if report.clean else 1)
    verdict = Text("sound", "bold green") if report.clean else Text("not sound", "bold red")
    depth = "log and data" if report.deep else "log and file sizes"
    size = f"version {report.version}, {count_text(report.files, 'file')}"
    say(f"{report.table}, {size}: {verdict} ({depth})", style=str(verdict.style))
    for done in report.repaired:
        say(f"repaired: {done}", style="green")
    if report.findings:
        heads = [Head(""), Head("what"), Head("in particular")]
        marks = {True: Text("note", "dim"), False: Text("wrong", "red")}
        ordered = sorted(report.findings, key=lambda f: (f.kind.is_harmless, f.kind.value))
        grid(heads, [(marks[f.kind.is_harmless], f.kind.value, str(f)) for f in ordered])
    if not report.clean and any(f.repairable for f in report.findings) and (dry_run or not repair):
        say("`holdfast check --repair` does what stands in brackets", style="dim")
    sys.exit(0 if report.clean else 1)
