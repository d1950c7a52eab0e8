"""`holdfast append`: add the rows of files to a table, or make a table of them."""

from __future__ import annotations

from typing import Any

import click
import pyarrow as pa

import holdfast
from holdfast.cli.command import dry_run_option, message_option, on_table, pairs
from holdfast.cli.incoming import files_argument, format_option, read_files
from holdfast.cli.output import Answer
from holdfast.cli.screen import count_text, say
from holdfast.cli.target import Target, columns_of
from holdfast.cli.write_result import report_commit, report_dry_run
from holdfast.engines.local.constraints import prepare
from holdfast.errors import Invalid, NotATable
from holdfast.formats.delta.detail import describe
from holdfast.formats.delta.protocol.features import check_writable
from holdfast.formats.delta.state import DeltaState, is_table
from holdfast.schema.constraints import demands, pinned
from holdfast.schema.enforce import fit
from holdfast.schema.evolve import evolve
from holdfast.schema.from_arrow import struct_of
from holdfast.schema.requests import spelled
from holdfast.schema.show import schema_text
from holdfast.terminal import phase
from holdfast.verbs.define.builder import CreateMode, DeltaTableBuilder


@click.command("append")
@on_table()
@files_argument
@format_option
@click.option("--merge-schema", is_flag=True, help="Add columns that the table lacks.")
@click.option("--widen-types", is_flag=True, help="Widen types of columns where the rows need it.")
@click.option("--create", is_flag=True, help="Make the table where there is none, with the columns of the files.")
@click.option("--partition-by", multiple=True, metavar="A,B", help="With --create: partition it by columns.")
@click.option("--cluster-by", multiple=True, metavar="A,B", help="With --create: cluster it by columns.")
@click.option(
    "--property",
    "-p",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    callback=pairs,
    help="With --create: a property of the table; repeat it for more.",
)
@click.option(
    "--txn", metavar="APP=N", help="What an application counts: N that the table has seen is not added again."
)
@dry_run_option
@message_option
def command(
    target: Target,
    answer: Answer,
    files: tuple[str, ...],
    format_: str | None,
    merge_schema: bool,
    widen_types: bool,
    create: bool,
    partition_by: tuple[str, ...],
    cluster_by: tuple[str, ...],
    properties: tuple[tuple[str, str], ...],
    txn: str | None,
    dry_run: bool,
    message: str | None,
) -> None:
    """Add the rows of Parquet, CSV or JSON files, in one commit; - reads standard input.

    \b
    holdfast append orders new.parquet more.parquet
    holdfast append --create orders orders.csv --partition-by day
    zcat new.jsonl.gz | holdfast append orders - --format json
    """
    if not create and (partition_by or cluster_by or properties):
        raise click.UsageError("--partition-by, --cluster-by and --property say what a new table is: add --create")
    app = _txn(txn)
    is_new = create and not is_table(target.location)
    if is_new:
        with phase("reading files"):
            rows = read_files(files, format_, None)
        if dry_run:
            shape = _described(target, rows, partition_by, cluster_by, properties, only_look=True)
            wish = {"creates": True, "rows": rows.num_rows, "columns": list(shape.schema.names)}
            what = (
                f"would make a table at {target.location.url} of {count_text(rows.num_rows, 'row')}, with the columns\n"
            )
            report_dry_run(answer, what + schema_text(shape.schema), wish)
            return
        table = _described(target, rows, partition_by, cluster_by, properties, only_look=False)
        if not answer.as_json:
            say(f"made a table at {target.location.url} with the columns\n{schema_text(struct_of(rows.schema))}")
    else:
        state = _state(target)
        _refuse_other(state, columns_of(partition_by), columns_of(cluster_by), dict(properties))
        with phase("reading files"):
            rows = read_files(files, format_, state.snapshot.schema)
        if dry_run:
            new = _fitted(state, rows, merge_schema, widen_types)
            wish = {"creates": False, "rows": rows.num_rows, "new_columns": new}
            more = f" and the {'column' if len(new) == 1 else 'columns'} {', '.join(new)}" if new else ""
            report_dry_run(answer, f"would add {count_text(rows.num_rows, 'row')}{more}: all of them fit", wish)
            return
        table = target.table()
    with phase(f"writing {count_text(rows.num_rows, 'row')}"):
        commit = table.append(rows, mergeSchema=merge_schema, widenTypes=widen_types, txn=app, userMetadata=message)
    report_commit(answer, commit, nothing=f"the table has seen {txn}: nothing was written")


def _txn(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    app, _, version = text.rpartition("=")
    if not app or not version.isdigit():
        raise click.UsageError(f"--txn is the name of an application and a number, such as loader=7, not {text!r}")
    return app, int(version)


def _state(target: Target) -> DeltaState:
    try:
        return target.delta()
    except NotATable as error:
        raise NotATable(f"{error}; --create makes a table of the files", location=error.location) from error


def _refuse_other(
    state: DeltaState, partitions: list[str] | None, clustering: list[str] | None, properties: dict[str, str]
) -> None:
    """Refuse an existing table that differs from the one that `--create` describes."""
    described, snapshot = describe(state), state.snapshot
    wrong = [f"{name}={value}" for name, value in properties.items() if snapshot.properties.get(spelled(name)) != value]
    for word, names in (("partitioned", partitions), ("clustered", clustering)):
        if names is not None and described.layout != f"{word} by {', '.join(names)}":
            wrong.append(f"{word} by {', '.join(names)}")
    if wrong:
        raise Invalid(
            f"there is a table at {snapshot.location.url} already, and it is not {' and '.join(wrong)}: leave that out"
        )


def _described(
    target: Target,
    rows: pa.Table,
    partition_by: tuple[str, ...],
    cluster_by: tuple[str, ...],
    properties: tuple[tuple[str, str], ...],
    *,
    only_look: bool,
) -> Any:
    """The new table; with `only_look` its definition, checked but not created."""
    if only_look:
        builder = DeltaTableBuilder(lambda location, shape, mode: shape, CreateMode.CREATE)
    else:
        builder = holdfast.DeltaTable.createIfNotExists(None)
    builder = builder.location(target.name, storage_options=dict(target.storage) or None).addColumns(rows.schema)
    if partition_by:
        builder = builder.partitionedBy(*(columns_of(partition_by) or ()))
    if cluster_by:
        builder = builder.clusterBy(*(columns_of(cluster_by) or ()))
    for name, value in properties:
        builder = builder.property(name, value)
    return builder.execute()


def _fitted(state: DeltaState, rows: pa.Table, add: bool, widen: bool) -> list[str]:
    """The columns that the table would get; refuses rows that do not fit."""
    snapshot, incoming = state.snapshot, struct_of(rows.schema)
    check_writable(state.protocol, table=snapshot.location.url)
    old = schema = snapshot.schema
    if add or widen:
        pinned_columns = pinned(old, snapshot.properties)
        schema = evolve(old, incoming, add_columns=add, widen_types=widen, pinned=pinned_columns)
    fitted = fit(incoming, schema)
    prepare(rows, fitted, demands(schema, snapshot.properties, fitted))
    return [name for name in schema.names if old.find(name) is None]
