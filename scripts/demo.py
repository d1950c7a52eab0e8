"""A tour of Holdfast on small tables made on the spot: `make demo`.

Every line of code on the screen is the code that runs, and every claim is checked: the tour ends with an error where
one does not hold.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tempfile
import time
from contextlib import chdir
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from demo_tables import Boats, write_orders
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table

import holdfast
from holdfast import DeltaTable

WIDEST = 100
_DELTALAKE_NAME = re.compile(r"part-\d+-([0-9a-f]{4})[0-9a-f-]{32}-c000\.\w+\.parquet")


class Tour:
    """Numbered steps: a sentence, the code, what it gives, what was checked."""

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
        """Show code, run it, and give the value of its last line."""
        self._block(Syntax(code, "python", theme="ansi_dark", background_color="default", word_wrap=True), indent=2)
        *statements, last = ast.parse(code).body
        assert isinstance(last, ast.Expr), "code on the screen ends with what it shows"
        exec(compile(ast.Module(statements, []), "<demo>", "exec"), self._names)
        return eval(compile(ast.Expression(last.value), "<demo>", "eval"), self._names)

    def rows(self, rows: DataFrame | pa.Table, *, by: str) -> list[dict[str, Any]]:
        """Show rows as a table, sorted by a column, and give them."""
        found = (rows if isinstance(rows, pa.Table) else rows.toArrow()).sort_by(by)
        table = Table(box=None, header_style="bold", padding=(0, 2), pad_edge=False)
        for field in found.schema:
            number = pa.types.is_integer(field.type)
            table.add_column(field.name, justify="right" if number else "left", style="green" if number else None)
        listed: list[dict[str, Any]] = found.to_pylist()
        for row in listed:
            table.add_row(*(escape(_cell(value)) for value in row.values()))
        self._block(table, indent=4)
        return listed

    def text(self, text: object) -> None:
        self._block(f"[dim]{escape(_short(str(text)))}[/]", indent=4)

    def check(self, *claims: tuple[str, bool]) -> None:
        """Say what was seen, or end the tour."""
        for claim, holds in claims:
            if not holds:
                raise SystemExit(f"demo: this does not hold: {claim}")
        self._block("\n".join(f"[bold green]✓[/] {escape(claim)}" for claim, _ in claims), indent=2)

    def _block(self, shown: RenderableType, *, indent: int) -> None:
        self._console.print(Padding(shown, (1, 0, 0, indent), expand=False))


def main() -> None:
    console = Console(width=min(Console().width, WIDEST), highlight=False)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as made:
        home = Path(made)
        console.print("\n[bold]Holdfast[/]: files churn, rows hold fast.")
        with console.status("starting Spark"):
            spark = _session(home / "spark.log")
        done = False
        try:
            with chdir(home):  # so that the code on the screen can say "orders"
                names = {"spark": spark, "holdfast": holdfast, "DeltaTable": DeltaTable}
                tour = Tour(console, names)
                _orders(tour, home / "orders")
                _boats(tour, home / "boats")
                _crew(tour)
            done = True
        finally:
            spark.stop()
            if not done:
                sys.stderr.write((home / "spark.log").read_text())
    _where_next(console, time.monotonic() - began)


def _session(log: Path) -> SparkSession:
    """A session whose JVM greets a file instead of the reader; the file is shown when the tour fails."""
    screen = os.dup(2)
    with log.open("wb") as quiet:
        os.dup2(quiet.fileno(), 2)
    try:
        return holdfast.session("holdfast-demo", **{"spark.sql.shuffle.partitions": "2"})
    finally:
        os.dup2(screen, 2)
        os.close(screen)


def _orders(tour: Tour, path: Path) -> None:
    write_orders(path)

    tour.step(
        "A table of another engine",
        "deltalake, which is not Spark, made these orders: two appends into three days, an update, a delete.",
    )
    shown = tour.run('orders = DeltaTable.forPath(spark, "orders")\norders.toDF().orderBy("order").limit(4)')
    tour.rows(shown, by="order")
    theirs = deltalake.DeltaTable(path).to_pyarrow_table()
    orders = DeltaTable.forPath(shown.sparkSession, str(path))
    same = _content(orders.toDF().toArrow()) == _content(theirs)
    tour.check((f"deltalake itself reads the same {len(theirs)} rows", same and len(theirs) == 17))

    tour.step("Files that are not read", "Partition values and statistics tell which files cannot hold such a row.")
    told = tour.run("where = \"day = '2024-05-02' AND cents > 9000\"\norders.explain(where=where)")
    tour.text(told)
    rows = tour.run("orders.scan(where=where)")
    tour.rows(rows, by="order")
    every = {reason.file for reason in orders.explain().kept}
    kept = {reason.file for reason in told.kept}
    read = {"/".join(name.rsplit("/", 2)[-2:]) for name in rows.inputFiles()}
    tour.check(
        ("Spark's own plan names the one file that was kept", read == kept and len(kept) == 1),
        ("and none of the other five:", kept < every and len(every) == 6),
    )
    tour.text("\n".join(sorted(every - kept)))

    tour.step("Every version is still there", "The log tells what was done, and each version can be read again.")
    history = tour.run('orders.history().select("version", "operation", "operationParameters.predicate", "engineInfo")')
    tour.rows(history, by="version")
    counts = tour.run(
        'when = orders.historyArrow()["timestamp"][2].as_py()  # newest first: this is version 1\n'
        "orders.scan(version=0).count(), orders.scan(timestamp=when).count(), orders.toDF().count()"
    )
    tour.check(("9 rows at version 0, 18 after the second append, 17 now", counts == (9, 18, 17)))


def _boats(tour: Tour, path: Path) -> None:
    hand = Boats(path)
    hand.create()
    hand.first_boats()
    scan = 'boats.scan(metadata=["_row_id", "_row_commit_version", "_file"])'

    tour.step(
        "Rows with an identity",
        "These boats track their rows: each has an id for life, and the version of its present content.",
    )
    rows = tour.rows(tour.run(f'boats = DeltaTable.forPath(spark, "boats")\n{scan}'), by="_row_id")
    tour.check(("seven boats in two files have the ids 0 to 6", [row["_row_id"] for row in rows] == list(range(7))))

    tour.step(
        "Delete and update, and no file is rewritten",
        "Gull leaves and Lark moves: deletion vectors hide their old rows, and Lark's new row carries its id.",
    )
    files = {name: (path / name).read_bytes() for name in ("quay-1.parquet", "quay-2.parquet")}
    hand.delete_gull()
    hand.move_lark()
    rows = tour.rows(tour.run(scan), by="_row_id")
    lark = next(row for row in rows if row["boat"] == "Lark")
    tour.check(
        ("the open table saw both commits: id 0 is gone", {row["_row_id"] for row in rows} == set(range(1, 7))),
        ("Lark is row 5 as before, now of version 3", (lark["_row_id"], lark["_row_commit_version"]) == (5, 3)),
        ("the two old files are as they were", all((path / n).read_bytes() == data for n, data in files.items())),
    )

    tour.step("Files churn, rows hold fast", "A compaction replaces every file, and no row notices.")
    hand.compact()
    after = tour.rows(tour.run(scan), by="_row_id")
    tour.check(
        ("no file is left of those before", not {row["_file"] for row in rows} & {row["_file"] for row in after}),
        ("every row has the id and the version it had", _identity(rows) == _identity(after)),
    )

    tour.step(
        "What happened to each row?",
        "Two versions joined by id tell, whatever became of the files; a new boat named Gull is a new row.",
    )
    hand.gull_again()
    joined = tour.run(
        'ids = ["_row_id", "_row_commit_version"]\n'
        "then, now = boats.scan(version=1, metadata=ids), boats.scan(metadata=ids)\n"
        'spark.sql("""\n'
        "    SELECT _row_id, coalesce(then.boat, now.boat) AS boat, then.berth AS from, now.berth AS to,\n"
        "        CASE WHEN now.boat IS NULL THEN 'deleted'\n"
        "             WHEN then.boat IS NULL THEN 'inserted'\n"
        "             WHEN now._row_commit_version > then._row_commit_version THEN 'updated'\n"
        "             ELSE '' END AS what\n"
        '    FROM {then} AS then FULL JOIN {now} AS now USING (_row_id)""", then=then, now=now)'
    )
    told = {row["_row_id"]: (row["boat"], row["what"]) for row in tour.rows(joined, by="_row_id")}
    changed = {id_: happened for id_, happened in told.items() if happened[1]}
    expected = {0: ("Gull", "deleted"), 5: ("Lark", "updated"), 14: ("Gull", "inserted")}
    tour.check(("one deleted, one updated, one inserted, five untouched", changed == expected and len(told) == 8))

    tour.step("No Spark at hand?", "Small requests can be read in this process with Arrow alone.")
    small = tour.run('DeltaTable.forPath(None, "boats").toArrow(where="berth < 4", metadata=["_row_id"])')
    tour.rows(small, by="_row_id")
    by_spark = DeltaTable.forPath(joined.sparkSession, str(path)).scan(where="berth < 4", metadata=["_row_id"])
    tour.check(("Spark gives the same three rows", len(small) == 3 and _content(small) == _content(by_spark.toArrow())))

    tour.step("A question without an answer", "The orders of step 1 do not track their rows, and no id is made up.")
    try:
        tour.run('holdfast.read(spark, "orders", metadata=["_row_id"])')
    except holdfast.Invalid as error:
        tour.text(f"{type(error).__name__}: {error}")
        tour.check(("the error says what to do", "delta.enableRowTracking=true" in str(error)))
    else:
        tour.check(("asking for ids where rows are not tracked is an error", False))


def _crew(tour: Tour) -> None:
    scan = 'crew.scan(metadata=["_row_id", "_row_commit_version"])'
    tour.step("A table of our own, and an upsert", "One source row finds its match and changes it, the other is new.")
    before = tour.rows(
        tour.run(
            'crew = DeltaTable.create(spark).location("crew") \\\n'
            '    .addColumn("name", "string").addColumn("berth", "int").execute()\n'
            "crew.append(spark.sql(\"SELECT * FROM VALUES ('Ada', 1), ('Bo', 2), ('Cy', 3) AS t(name, berth)\"))\n"
            + scan
        ),
        by="_row_id",
    )
    told = tour.run(
        "news = spark.sql(\"SELECT * FROM VALUES ('Bo', 7), ('Di', 8) AS t(name, berth)\")\n"
        'done = crew.alias("t").merge(news.alias("s"), "t.name = s.name") \\\n'
        "    .whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()\n"
        "done.rowIds()"
    )
    touched = tour.rows(told, by="_row_id")
    rows = tour.rows(tour.run(scan), by="_row_id")
    ids = {row["name"]: (row["_row_id"], row["_row_commit_version"]) for row in rows}
    tour.check(
        ("Bo has the id he had, and the version of the merge", ids["Bo"] == (1, 2)),
        ("Ada and Cy are as they were", [ids["Ada"], ids["Cy"]] == [(0, 1), (2, 1)] and len(before) == 3),
        ("the merge knows whom it touched", {row["_row_id"] for row in touched} == {1, ids["Di"][0]}),
    )

    tour.step("Think twice", "A plan says what a change would do; a restore takes one back, with ids and versions.")
    tour.text(tour.run('crew.plan.delete("berth > 2")'))
    tour.run('crew.delete("berth > 2").metrics["numDeletedRows"], crew.restoreToVersion(1).version')
    after = tour.rows(tour.run(scan), by="_row_id")
    tour.check(("everybody is back, each with the id and version of then", after == before))


def _where_next(console: Console, seconds: float) -> None:
    console.print()
    console.rule(f"[bold cyan]That was Holdfast, in {seconds:.0f} seconds", align="left", style="cyan")
    for place, what in (
        ("README.md", "what works today and what does not yet"),
        ("docs/tables.md", "open a table, read it, go back in time"),
        ("docs/scanning.md", "columns, conditions, metadata columns, explain"),
        ("docs/row-identity.md", "what survives what"),
        ("scripts/demo_tables.py", "how these tables were made"),
        ("make test", "every check and every test"),
    ):
        console.print(f"  [green]{place:<24}[/]{what}")
    console.print()


def _identity(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {(row["boat"], row["berth"], row["_row_id"], row["_row_commit_version"]) for row in rows}


def _content(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows in an order of their own, so that two readers can be compared."""
    names = sorted(table.column_names)
    return sorted(tuple(row[name] for name in names) for row in table.to_pylist())


def _cell(value: object) -> str:
    text = "NULL" if value is None else str(value)
    return text.rsplit("/", 1)[-1] if text.startswith("file:") else text


def _short(text: str) -> str:
    """File names of deltalake without most of their uuid."""
    return _DELTALAKE_NAME.sub(r"part-\1….parquet", text)


if __name__ == "__main__":
    main()
