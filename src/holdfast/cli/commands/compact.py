"""`holdfast compact`: write small files together, and files that hide many rows anew."""

from __future__ import annotations

import click

from holdfast.cli.command import dry_run_option, on_table, spark_option, where_option
from holdfast.cli.output import Answer
from holdfast.cli.target import Target, columns_of
from holdfast.cli.write_result import report_bins, report_compaction, size
from holdfast.plan.maintain.compact import HIDDEN_SHARE, TARGET_ROWS


@click.command("compact")
@on_table()
@where_option
@click.option("--target-rows", type=int, default=TARGET_ROWS, show_default=True, help="What a file should hold.")
@click.option(
    "--target-size",
    type=size,
    metavar="SIZE",
    help="What a file should weigh, such as 128MB; else what the table says.",
)
@click.option(
    "--max-bytes", type=size, metavar="SIZE", help="Write no more than this, such as 2GB; what gains most comes first."
)
@click.option(
    "--hidden-share", type=float, default=HIDDEN_SHARE, show_default=True, help="Rewrite files that hide more."
)
@click.option("--z-order-by", multiple=True, metavar="A,B", help="Put rows in order by these columns.")
@dry_run_option
@spark_option
def command(
    target: Target,
    answer: Answer,
    where: str | None,
    target_rows: int,
    target_size: int | None,
    max_bytes: int | None,
    hidden_share: float,
    z_order_by: tuple[str, ...],
    dry_run: bool,
    spark: bool,
) -> None:
    """Write small files together, every row as it was.

    Of a clustered table, put in order what is not yet. Row ids and versions stay.
    """
    optimize = target.table(spark=spark).optimize(
        targetRows=target_rows,
        targetBytes=target_size,
        materializeDeletionsThreshold=hidden_share,
        maxBytes=max_bytes,
    )
    if where is not None:
        optimize = optimize.where(where)
    names = columns_of(z_order_by) or []
    if dry_run:
        report_bins(answer, optimize.plan(names))
        return
    result = optimize.executeZOrderBy(names) if names else optimize.executeCompaction()
    report_compaction(answer, result)
