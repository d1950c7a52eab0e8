"""Iceberg tables that others wrote: read by Holdfast after every step, changed by it, and read by their writer again.

1. A step is a statement of SQL, the same for every engine but for names of types; pyiceberg is called by its methods.
2. After a step Holdfast's rows are those of a model, and its metadata columns those that the writer itself and
   Iceberg's Java runtime report.
3. What a writer refuses is told, and its story goes on without; whatever goes wrong ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.expressions import In

from holdfast import IcebergTable, TableError
from tests.interop.answers import Answer, Refused, Works, Wrong, compared, said
from tests.interop.iceberg_engines import LINEAGE, Apart, Engines, Reader

COLUMNS = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("amount", pa.int64())])
_numbers = count()


@dataclass(frozen=True, slots=True)
class Kind:
    """What a writer is asked to make."""

    version: int
    partitioned: bool
    mode: str | None  # None where a writer has no choice

    @property
    def title(self) -> str:
        mode = "" if self.mode is None else f", {self.mode}"
        return f"version {self.version}, {'by value' if self.partitioned else 'not partitioned'}{mode}"


@dataclass(frozen=True)
class Writer:
    """Someone else who writes Iceberg tables."""

    reader: Reader
    kinds: tuple[Kind, ...]
    make: Callable[[str, Kind], None]
    act: Callable[[str, str, Sequence[int]], None]  # a verb, on a table, of these ids
    newest: Callable[[str], Path]  # the metadata file of a table
    hand_over: Callable[[str, IcebergTable], None] = lambda name, table: None  # where it does not see our commits


@dataclass
class Model:
    """The rows there should be, by id."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)

    def apply(self, verb: str, ids: Sequence[int]) -> None:
        match verb:
            case "append":
                self.rows |= {n: row(n) for n in ids}
            case "delete":
                self.rows = {n: given for n, given in self.rows.items() if n not in ids}
            case "update":
                self.rows |= {n: {**self.rows[n], "amount": self.rows[n]["amount"] + 1000} for n in ids}
            case "merge":
                self.rows |= {n: merged(n) for n in ids}

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(list(self.rows.values()), COLUMNS)


THEIRS: tuple[tuple[str, Sequence[int]], ...] = (
    ("append", range(0, 10)),
    ("append", range(10, 20)),
    ("delete", (3, 5, 12)),
    ("delete", (4, 13)),
    ("update", (6, 14)),
    ("merge", (8, 30, 31)),
)
OURS: tuple[tuple[str, Sequence[int]], ...] = (
    ("delete", (0, 15)),
    ("update", (1, 16)),
    ("merge", (9, 32)),
    ("compact", ()),
)
AFTERWARDS: tuple[tuple[str, Sequence[int]], ...] = (("append", range(40, 43)), ("delete", (2, 40)))


def row(n: int) -> dict[str, Any]:
    return {"id": n, "kind": (None, "a", "b/c %2F")[n % 3], "amount": n * 2}


def merged(n: int) -> dict[str, Any]:
    return {"id": n, "kind": "merged", "amount": -1}


def tell(
    writer: Writer, judge: Reader, kind: Kind, catalog: dict[str, str], server: MetastoreCatalog
) -> Iterator[tuple[str, Answer]]:
    """Each step, and what came of it."""
    name, model = f"made_{next(_numbers)}", Model()
    try:
        writer.make(name, kind)
    except Refused as error:
        yield "create", said(error)
        return
    for who, verb, ids in (
        *(("theirs", *step) for step in THEIRS),
        *(("ours", *step) for step in OURS),
        *(("theirs", *step) for step in AFTERWARDS),
    ):
        step = verb if who == "theirs" else f"{verb} by Holdfast"
        try:
            if who == "theirs":
                writer.act(verb, name, ids)
            else:
                table = _loaded(writer, name, catalog, server)
                change(table, verb, ids)
                writer.hand_over(name, table)
        except Refused as error:
            yield step, said(error)
            continue
        except TableError as error:
            yield step, Wrong(f"after {verb} Holdfast says: {error}")
            return
        model.apply(verb, ids)
        answer = looked_at((writer.reader, judge), writer.newest(name), model)
        yield step, answer
        if answer != Works():
            return


def looked_at(readers: Sequence[Reader], metadata: Path, model: Model) -> Answer:
    """Whether Holdfast and others read the model's rows, with the same metadata columns."""
    try:
        table = IcebergTable.forMetadata(None, metadata)
        if (answer := compared(table.toArrow(), model.table())) != Works():
            return answer
    except TableError as error:
        return Wrong(f"Holdfast says: {error}")
    for reader in readers:
        asked = [name for name in reader.tells if table.formatVersion >= 3 or name not in LINEAGE]
        try:
            answer = compared(reader.rows(metadata, asked), table.toArrow(metadata=asked))
        except Refused as error:
            answer = said(error)
        if answer != Works():
            return Wrong(f"{reader.name}: {answer}")
    return Works()


def change(table: IcebergTable, verb: str, ids: Sequence[int]) -> None:
    """A change by Holdfast."""
    listed = f"id in ({', '.join(map(str, ids))})"
    match verb:
        case "delete":
            table.delete(listed, mode="merge-on-read")
        case "update":
            table.update(listed, {"amount": "amount + 1000"}, mode="merge-on-read")
        case "merge":
            source = pa.Table.from_pylist([merged(n) for n in ids], COLUMNS)
            merge = table.alias("t").merge(source, "t.id = s.id", mode="merge-on-read")
            merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        case "compact":
            table.optimize().executeCompaction()


def _loaded(writer: Writer, name: str, catalog: dict[str, str], server: MetastoreCatalog) -> IcebergTable:
    if not server.table_exists(("db", name)):  # the writer has no catalog, so what it wrote is made known to ours
        name = f"{name}_{next(_numbers)}"
        server.register_table(("db", name), f"file://{writer.newest(name.rpartition('_')[0])}")
    return IcebergTable.load(None, catalog, f"db.{name}")


def writers(engines: Engines, catalog: MetastoreCatalog, home: Path) -> tuple[Writer, ...]:
    """Everyone who writes."""

    def listed(name: str) -> Path:
        return Path(catalog.load_table(("db", name)).metadata_location.removeprefix("file://"))

    def found(name: str) -> Path:
        return max((home / "sail" / name / "metadata").glob("v*.metadata.json"), key=_number)

    def handed_over(name: str, table: IcebergTable) -> None:
        newest = found(name)
        following = newest.with_name(f"v{_number(newest) + 1}.metadata.json")
        following.write_bytes(Path(table.handle.newest().metadata_path.removeprefix("file://")).read_bytes())
        newest.with_name("version-hint.text").write_text(str(_number(following)))

    def of_spark(kind: Kind, more: str = "") -> str:
        modes = [f"'write.{verb}.mode'='{kind.mode}'" for verb in ("delete", "update", "merge")]
        properties = ", ".join([f"'format-version'='{kind.version}'", *modes])
        by = "PARTITIONED BY (kind) " if kind.partitioned else ""
        return f"(id BIGINT, kind STRING, amount BIGINT) USING iceberg {by}{more}TBLPROPERTIES ({properties})"

    def java(name: str, kind: Kind) -> None:
        engines.java.run(f"CREATE TABLE rest.db.{name} {of_spark(kind)}")

    def duckdb(name: str, kind: Kind) -> None:
        by = "PARTITIONED BY (kind) " if kind.partitioned else ""
        columns = "id BIGINT, kind VARCHAR, amount BIGINT"
        engines.duckdb.run(f"CREATE TABLE rest.db.{name} ({columns}) {by}WITH ('format-version'='{kind.version}')")

    def sail(name: str, kind: Kind) -> None:
        place = f"LOCATION '{home / 'sail' / name}' "
        engines.sail.run(f"CREATE TABLE {name} {of_spark(kind, place)}")

    def pyiceberg(name: str, kind: Kind) -> None:
        by = ["kind"] if kind.partitioned else []
        IcebergTable.create(None, catalog, f"db.{name}", COLUMNS, partitionedBy=by, formatVersion=kind.version)

    def changed_by_pyiceberg(verb: str, name: str, ids: Sequence[int]) -> None:
        table = catalog.load_table(("db", name))
        match verb:
            case "append":
                table.append(pa.Table.from_pylist([row(n) for n in ids], COLUMNS))
            case "delete":
                table.delete(In("id", ids))
            case "update":
                was = {n: given for given in table.scan().to_arrow().to_pylist() if (n := given["id"]) in ids}
                new = [{**given, "amount": given["amount"] + 1000} for given in was.values()]
                table.overwrite(pa.Table.from_pylist(new, COLUMNS), In("id", ids))
            case "merge":
                table.upsert(pa.Table.from_pylist([merged(n) for n in ids], COLUMNS), join_cols=["id"])

    ways = [(version, by) for version in (2, 3) for by in (False, True)]
    chosen = tuple(Kind(*way, mode) for way in ways for mode in ("merge-on-read", "copy-on-write"))
    given = tuple(Kind(*way, None) for way in ways)
    return (
        Writer(engines.java, chosen, java, _by_sql(engines.java, "rest.db.", "STRING"), listed),
        Writer(engines.duckdb, given, duckdb, _by_sql(engines.duckdb, "rest.db.", "VARCHAR"), listed),
        Writer(engines.sail, chosen, sail, _by_sql(engines.sail, "", "STRING"), found, handed_over),
        Writer(engines.pyiceberg, given[:2], pyiceberg, changed_by_pyiceberg, listed),
    )


def _number(metadata: Path) -> int:
    return int(metadata.name.removeprefix("v").partition(".")[0])


def _by_sql(engine: Apart, prefix: str, text: str) -> Callable[[str, str, Sequence[int]], None]:
    def given(rows: Sequence[dict[str, Any]]) -> str:
        told = (f"({r['id']}, {_literal(r['kind'])}, {r['amount']})" for r in rows)
        columns = f"CAST(id AS BIGINT) AS id, CAST(kind AS {text}) AS kind, CAST(amount AS BIGINT) AS amount"
        return f"SELECT {columns} FROM (VALUES {', '.join(told)}) AS v(id, kind, amount)"

    def act(verb: str, name: str, ids: Sequence[int]) -> None:
        table, where = f"{prefix}{name}", f"id IN ({', '.join(map(str, ids))})"
        match verb:
            case "append":
                engine.run(f"INSERT INTO {table} {given([row(n) for n in ids])}")
            case "delete":
                engine.run(f"DELETE FROM {table} WHERE {where}")
            case "update":
                engine.run(f"UPDATE {table} SET amount = amount + 1000 WHERE {where}")
            case "merge":
                engine.run(
                    f"MERGE INTO {table} AS t USING ({given([merged(n) for n in ids])}) AS s ON t.id = s.id "
                    "WHEN MATCHED THEN UPDATE SET kind = s.kind, amount = s.amount "
                    "WHEN NOT MATCHED THEN INSERT (id, kind, amount) VALUES (s.id, s.kind, s.amount)"
                )

    return act


def _literal(kind: str | None) -> str:
    return "NULL" if kind is None else f"'{kind}'"
