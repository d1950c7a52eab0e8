"""`holdfast publish`: bring the rows of a table into a table of the other format, under the ids they have."""

from __future__ import annotations

from typing import Any

import click

import holdfast
from holdfast.cli.command import on_table, spark_option
from holdfast.cli.output import Answer
from holdfast.cli.screen import count_text, say
from holdfast.cli.target import Target
from holdfast.errors import NotATable
from holdfast.terminal import phase


@click.command("publish")
@on_table(iceberg=True)
@click.option(
    "--to", "there", required=True, metavar="TABLE", help="Where to: a directory, or with --to-catalog a name."
)
@click.option("--to-catalog", metavar="NAME", help="That is a name in an Iceberg catalog: pyiceberg's, or a .db file.")
@click.option("--create", is_flag=True, help="Make that table, with the columns of TABLE, if there is none.")
@click.option(
    "--partition-by",
    multiple=True,
    metavar="COLUMN",
    help="How a table that is made is partitioned, such as day or 'bucket(16, id)'; repeat it for more.",
)
@click.option("--upto", type=int, metavar="N", help="Up to this version or snapshot; without it, the newest.")
@click.option("--afresh", is_flag=True, help="Put all rows in the place of whatever is there.")
@spark_option
def command(
    target: Target,
    answer: Answer,
    there: str,
    to_catalog: str | None,
    create: bool,
    partition_by: tuple[str, ...],
    upto: int | None,
    afresh: bool,
    spark: bool,
) -> None:
    """Bring rows into a table of the other format, ids kept.

    The first time all rows, from then on what changed since, in one commit each time.

    \b
    holdfast publish orders --to shop.orders --to-catalog shop.db --create
    """
    if partition_by and not create:
        raise click.UsageError("--partition-by is for a table that is made: say --create too")
    source = target.either(spark=spark)
    other = Target(there, to_catalog, target.storage, target.allow_outside)
    with phase("publishing"):
        published = source.publish(
            _created(other, source, partition_by) if create else other.either(), upto=upto, afresh=afresh
        )
    if answer.as_json:
        answer.lines([{name: getattr(published, name) for name in published.__dataclass_fields__}])
        return
    if published.versions is None:
        say("nothing to publish: all of it is there")
        return
    first, last = published.versions
    versions = f"version {last}" if first == last else f"versions {first} to {last}"
    rows = ", ".join(
        f"{count_text(n, 'row')} {what}"
        for n, what in (
            (published.inserted, "inserted"),
            (published.updated, "updated"),
            (published.deleted, "deleted"),
        )
        if n
    )
    say(f"{versions} published as version {published.version}: {rows or 'no row changed'}")


def _created(target: Target, like: Any, partitioned_by: tuple[str, ...]) -> Any:
    """The table; created if there is none."""
    try:
        return target.either()
    except NotATable:
        if target.catalog is None:
            return holdfast.DeltaTable.createLike(
                None, target.name, like, partitionedBy=partitioned_by, storage_options=dict(target.storage) or None
            )
    return holdfast.IcebergTable.createLike(
        None,
        target.catalog,
        target.name,
        like,
        partitionedBy=partitioned_by,
        storage_options=dict(target.storage) or None,
    )
