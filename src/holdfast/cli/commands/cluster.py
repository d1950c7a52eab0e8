"""`holdfast cluster`: choose the columns that a table is clustered by, and put its rows in order."""

from __future__ import annotations

from dataclasses import dataclass

import click

from holdfast.cli.command import dry_run_option, on_table, spark_option
from holdfast.cli.output import Answer
from holdfast.cli.target import Target, columns_of
from holdfast.cli.write_result import report_bins, report_commit, report_compaction, report_dry_run, size
from holdfast.errors import Invalid
from holdfast.plan.maintain.cluster import plan_clustering
from holdfast.plan.maintain.compact import Bin
from holdfast.verbs.define.columns import path_of
from holdfast.verbs.define.properties import cluster_by
from holdfast.verbs.maintain.optimize import limits_of
from holdfast.verbs.open.delta import open_delta


@dataclass(frozen=True)
class _Planned:
    """What clustering by other columns would write."""

    bins: tuple[Bin, ...]
    of: int

    @property
    def bytes(self) -> int:
        return sum(b.bytes for b in self.bins)


@click.command("cluster")
@on_table()
@click.option("--by", multiple=True, metavar="A,B", help="Cluster the table by these columns from now on.")
@click.option("--none", "by_none", is_flag=True, help="Cluster it by nothing from now on; rewrites nothing.")
@click.option("--full", is_flag=True, help="Put all rows in order again, not only what is new.")
@click.option("--max-bytes", type=size, metavar="SIZE", help="Write no more than this, such as 2GB.")
@dry_run_option
@spark_option
def command(
    target: Target,
    answer: Answer,
    by: tuple[str, ...],
    by_none: bool,
    full: bool,
    max_bytes: int | None,
    dry_run: bool,
    spark: bool,
) -> None:
    """Put rows with near values into the same files.

    \b
    holdfast cluster orders --by customer,day
    holdfast cluster orders                    what is new since
    """
    if by and by_none:
        raise click.UsageError("--by and --none exclude each other")
    if by_none and (full or max_bytes is not None):
        raise click.UsageError("--none rewrites nothing: leave --full and --max-bytes out")
    if full and max_bytes is not None:
        raise click.UsageError("--full puts all rows in order, however many bytes they have: leave --max-bytes out")
    names = columns_of(by)
    state = target.delta()
    if names is None and not by_none and not state.snapshot.clustering_columns:
        raise Invalid("the table is not clustered: say by which columns, as in --by customer,day")
    if dry_run and by_none:
        report_dry_run(answer, "would cluster rows by nothing from now on; no file is rewritten", {"columns": []})
        return
    if dry_run and names:
        planned = open_delta(state)
        cluster_by(planned.definition, names)  # refuses columns that cannot be
        paths = tuple(path_of(state.snapshot.schema, name) for name in names)
        limits = limits_of(planned, most_bytes=max_bytes)
        files = state.snapshot.files
        report_bins(answer, _Planned(plan_clustering(files, paths, limits, full=full), len(files)))
        return
    table = target.table(spark=spark)
    if by_none:
        report_commit(answer, table.clusterBy(), nothing="the table was not clustered: nothing was written")
        return
    chosen = table.clusterBy(*names).version if names else None
    optimize = table.optimize(full=full, maxBytes=max_bytes)
    if dry_run:
        report_bins(answer, optimize.plan())
        return
    report_compaction(answer, optimize.executeCompaction(), chosen=chosen)
