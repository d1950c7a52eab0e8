"""A tour of Holdfast on small tables made on the spot: `make demo`.

Every line of code that is shown is the code that runs, and every claim is checked: the tour ends with an error where
one does not hold.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from demo_tables import Boats, write_orders
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table

import holdfast
from holdfast import DeltaTable

WIDEST = 100
_DELTALAKE_NAME = re.compile(r"part-\d+-([0-9a-f]{4})[0-9a-f-]{32}-c000\.\w+\.parquet")


class Tour:
    """Numbered steps: a sentence, the code, what it gives."""

    def __init__(self, console: Console, names: dict[str, Any]) -> None:
        self._console = console
        self._names = names
        self._steps = 0

    def step(self, title: str, sentence: str) -> None:
        self._steps += 1
        self._console.print()
        self._console.rule(f"[bold cyan]{self._steps}  {title}", align="left", style="cyan")
        self._console.print(sentence)

    def run(self, code: str) -> Any:
        """Show an expression and evaluate it."""
        shown = Syntax(code, "python", theme="ansi_dark", background_color="default", word_wrap=True)
        self._console.print(Padding(shown, (1, 0, 0, 2)))
        return eval(code, self._names)

    def rows(self, rows: DataFrame | pa.Table, *order: str) -> list[dict[str, Any]]:
        """Show rows as a table and return them."""
        found = rows if isinstance(rows, pa.Table) else rows.toArrow()
        found = found.sort_by([(name, "ascending") for name in order])
        table = Table(box=None, header_style="bold", padding=(0, 2), pad_edge=False)
        for field in found.schema:
            number = pa.types.is_integer(field.type)
            table.add_column(field.name, justify="right" if number else "left", style="green" if number else None)
        listed = found.to_pylist()
        for row in listed:
            table.add_row(*(escape(_shown(value)) for value in row.values()))
        self._console.print(Padding(table, (0, 0, 0, 4)))
        return listed

    def text(self, text: object) -> None:
        self._console.print(Padding(escape(_short(str(text))), (0, 0, 0, 4)), highlight=False, style="dim")

    def check(self, claim: str, holds: bool) -> None:
        """Say what was seen, or end the tour."""
        if not holds:
            raise SystemExit(f"demo: this does not hold: {claim}")
        self._console.print(f"  [bold green]✓[/] {escape(claim)}", highlight=False)


def main() -> None:
    console = Console(width=min(Console().width, WIDEST), highlight=False)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as made:
        home = Path(made)
        console.print("\n[bold]Holdfast[/]: files churn, rows hold fast.")
        with console.status("starting Spark"), _spark(home / "spark.log") as spark:
            pass
        try:
            os.chdir(home)  # so that the code on screen can say "orders"
            tour = Tour(console, {"spark": spark, "holdfast": holdfast, "DeltaTable": DeltaTable})
            _orders(tour, home / "orders")
            _boats(tour, home / "boats")
            _where_next(console, time.monotonic() - began)
        finally:
            os.chdir("/")
            spark.stop()


def _orders(tour: Tour, path: Path) -> None:
    write_orders(path)
    names = tour._names

    tour.step(
        "A table of another engine",
        "deltalake, which is not Spark, made these orders: two appends into three days, an update, a delete.",
    )
    orders = names["orders"] = tour.run('DeltaTable.forPath(spark, "orders")')
    found = tour.rows(tour.run("orders.toDF().limit(5)"), "order")
    theirs = deltalake.DeltaTable(path).to_pyarrow_table()
    same = _content(orders.toDF().toArrow()) == _content(theirs)
    tour.check(f"{len(found)} of {len(theirs)} rows; deltalake itself reads exactly the same {len(theirs)}", same)

    tour.step("Files that are not read", "Partition values and statistics say which files cannot hold such a row.")
    names["where"] = where = "day = '2024-05-02' AND cents > 9000"
    told = tour.run(f'orders.explain(where="{where}")')
    tour.text(told)
    rows = tour.run("orders.scan(where=where)")
    every = {reason.file for reason in orders.explain().kept}
    kept = {reason.file for reason in told.kept}
    read = {name.removeprefix(path.as_uri().replace("file://", "file:") + "/") for name in _inputs(rows)}
    tour.rows(rows, "order")
    tour.check(f"Spark's plan has these {len(kept)} of {len(every)} files, and no other", read == kept < every)
    tour.text("not read:\n" + "\n".join(f"  {name}" for name in sorted(every - kept)))

    tour.step("Every version is still there", "The log tells who did what, and any version of it can be read.")
    told = tour.run('orders.history().select("version", "operation", "operationParameters.predicate", "engineInfo")')
    tour.rows(told, "version")
    first = tour.run("orders.scan(version=0).count()")
    last = tour.run("orders.toDF().count()")
    tour.check(f"{first} rows at version 0, {last} now", (first, last) == (9, 17))


def _boats(tour: Tour, path: Path) -> None:
    names = tour._names
    hand = Boats(path)
    hand.create()
    hand.first_boats()
    scan = 'boats.scan(metadata=["_row_id", "_row_commit_version", "_file"])'

    tour.step(
        "Rows with an identity",
        "These boats track their rows: each has an id for life, and the version of its present content.",
    )
    boats = names["boats"] = tour.run('DeltaTable.forPath(spark, "boats")')
    rows = _rows(tour, scan)
    tour.check("seven boats in two files have the ids 0 to 6", [row["_row_id"] for row in rows] == list(range(7)))

    tour.step(
        "Delete and update without touching a file",
        "Gull leaves and Lark moves: deletion vectors hide two old rows, and Lark's new row says which row it is.",
    )
    hand.delete_gull()
    hand.move_lark()
    rows = _rows(tour, scan)
    lark = next(row for row in rows if row["boat"] == "Lark")
    tour.check("the open table saw both commits; Gull's id 0 is gone", {r["_row_id"] for r in rows} == set(range(1, 7)))
    tour.check("Lark is still row 5, now with version 3", (lark["_row_id"], lark["_row_commit_version"]) == (5, 3))

    tour.step("Files churn, rows hold fast", "A compaction replaces every file. No row notices.")
    hand.compact()
    after = _rows(tour, scan)
    tour.check("not one file is the same", not {r["_file"] for r in rows} & {r["_file"] for r in after})
    tour.check("every row has the id and the version it had", _identity(rows) == _identity(after))

    tour.step(
        "What happened to each row?",
        "Two versions joined by id tell it, whatever happened to the files. Gull is back, and is another row.",
    )
    hand.gull_again()
    names["then"] = tour.run('boats.scan(version=1, metadata={"_row_id": "id", "_row_commit_version": "was"})')
    names["now"] = tour.run('boats.scan(metadata={"_row_id": "id", "_row_commit_version": "is"})')
    joined = tour.run(
        'then.join(now.withColumnRenamed("boat", "boat_now").withColumnRenamed("berth", "berth_now"), "id", "full")'
        '.selectExpr("id", "coalesce(boat, boat_now) AS boat", "berth", "berth_now",\n'
        "    \"CASE WHEN is IS NULL THEN 'deleted' WHEN was IS NULL THEN 'inserted'\"\n"
        "    \"     WHEN is > was THEN 'updated' ELSE 'unchanged' END AS what\")"
    )
    told = {(row["id"], row["boat"]): row["what"] for row in tour.rows(joined, "id")}
    changed = {key: what for key, what in told.items() if what != "unchanged"}
    expected = {(0, "Gull"): "deleted", (5, "Lark"): "updated", (14, "Gull"): "inserted"}
    tour.check("one deleted, one updated, one inserted, five untouched", changed == expected and len(told) == 8)

    tour.step("No Spark at hand?", "Small reads run in this process, with Arrow, and give the same rows.")
    small = tour.run('DeltaTable.forPath(None, "boats").toArrow(where="berth < 4", metadata=["_row_id"])')
    tour.rows(small, "_row_id")
    spark_says = boats.scan(where="berth < 4", metadata=["_row_id"]).toArrow()
    tour.check("Spark says the same", _content(small) == _content(spark_says))

    tour.step("A question that cannot be answered", "deltalake's orders do not track rows, and no id is made up.")
    try:
        tour.run('holdfast.read(spark, "orders", metadata=["_row_id"])')
    except holdfast.Invalid as error:
        tour.text(f"{type(error).__name__}: {error}")
        tour.check("the error says what to do", "delta.enableRowTracking" in str(error))
    else:
        tour.check("asking for an id of a table without row tracking is an error", False)


def _where_next(console: Console, seconds: float) -> None:
    console.print()
    console.rule(f"[bold cyan]That was Holdfast, in {seconds:.0f} seconds", align="left", style="cyan")
    for place, what in (
        ("README.md", "what works today and what comes next"),
        ("docs/tables.md", "open, read, travel in time"),
        ("docs/scanning.md", "columns, conditions, metadata columns, explain"),
        ("docs/row-identity.md", "what survives what"),
        ("scripts/demo_tables.py", "how these tables were made"),
        ("make test", "every check and every test"),
    ):
        console.print(f"  [green]{place:<24}[/]{what}")
    console.print()


@contextmanager
def _spark(log: Path) -> Iterator[SparkSession]:
    """A session whose JVM writes its greetings to a file instead of into the tour."""
    screen = os.dup(2)
    with log.open("wb") as quiet:
        os.dup2(quiet.fileno(), 2)
    try:
        session = holdfast.session("holdfast-demo")
    except holdfast.TableError as error:
        raise SystemExit(f"demo: {error}") from error
    finally:
        os.dup2(screen, 2)
        os.close(screen)
    yield session


def _rows(tour: Tour, scan: str) -> list[dict[str, Any]]:
    return tour.rows(tour.run(scan), "_row_id")


def _inputs(df: DataFrame) -> list[str]:
    return [str(name) for name in df.inputFiles()]


def _identity(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {(row["boat"], row["berth"], row["_row_id"], row["_row_commit_version"]) for row in rows}


def _content(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows in an order of their own, so that two readers can be compared."""
    names = sorted(table.column_names)
    return sorted(tuple(row[name] for name in names) for row in table.to_pylist())


def _shown(value: object) -> str:
    text = "–" if value is None else str(value)
    return text.rsplit("/", 1)[-1] if text.startswith("file:") else text


def _short(text: str) -> str:
    """File names of deltalake without most of their uuid."""
    return _DELTALAKE_NAME.sub(r"part-\1….parquet", text)


if __name__ == "__main__":
    sys.exit(main())
