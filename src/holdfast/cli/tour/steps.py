"""The steps of the tour: the text, the printed results and the claims of each.

1. A step is a function of the guide, which prints and runs its code and raises if a claim does not hold.
2. No claim is about time: times are only printed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.cli.screen import Head, count_text
from holdfast.cli.tour import code
from holdfast.cli.tour.guide import Guide
from holdfast.errors import Unsupported
from holdfast.plan.changefeed.biography import Biography, What
from holdfast.report.facts import ChangeCounts, Lookup, Writer
from holdfast.table.delta import DeltaTable

IndexFiles: TypeAlias = dict[str, tuple[int, int]]  # size and modification time by file

FOLLOWED = 17  # the order that the tour follows; its row id is the same number
_TYPES = ("insert", "update_preimage", "update_postimage", "delete")


def create(guide: Guide) -> None:
    guide.step(
        "A table whose rows have ids",
        "A Delta table in a directory. It tracks rows from the start; no JAR, and for now no Spark.",
    )
    sizes = f"days, rows = {guide.names['days']}, {guide.names['rows']:_}"
    guide.run(code.create, imports=f"{code.IMPORTS}\n\n{sizes}")
    properties = dict(guide.names["orders"].detailArrow()["properties"][0].as_py())
    guide.check(("row tracking is on", properties.get("delta.enableRowTracking") == "true"))


def append(guide: Guide) -> None:
    total = guide.names["days"] * guide.names["rows"]
    guide.step("Append", f"{count_text(guide.names['rows'])} orders a day. Each row gets an id for life.")
    appended = guide.run(code.append)
    guide.rows(appended)
    ids = guide.names["orders"].toArrow(columns=[], metadata=["_row_id"])["_row_id"]
    guide.check(
        (f"{count_text(total, 'row')} have {count_text(total)} different ids", len(ids.unique()) == total),
        (
            "no file stores one: a number in the log stands for all rows of a file",
            _columns() == {tuple(appended.column_names[:-1])},
        ),
    )


def look_up_without_index(guide: Guide) -> Lookup:
    guide.step(
        "Finding rows without an index",
        "Twenty orders by their reference, one after the other. References are all over the files, so all are read.",
    )
    _, seconds = guide.run(code.choose_and_look_up)
    guide.text(f"{seconds * 1000:.1f} ms for each")
    return Lookup("no index", _files(guide), seconds)


def look_up_with_index(guide: Guide) -> Lookup:
    guide.step("Finding rows with an index", "An entry names a row by its id and the version of its content.")
    index = guide.run(code.make_index)
    guide.text(index)
    seconds = guide.run(code.look_up)
    guide.text(f"{seconds * 1000:.1f} ms for each")
    orders = guide.names["orders"]
    guide.check((f"a reference leads to its order: {FOLLOWED}", _order_of(orders, guide.names["refs"][0]) == FOLLOWED))
    return Lookup("index", _files(guide), seconds)


def upsert(guide: Guide) -> None:
    guide.step(
        "Upsert",
        "Late corrections: those that meet their order change its amount, the others are new. No file is rewritten.",
    )
    guide.run(code.upsert)
    metrics, orders = guide.names["merged"].metrics, guide.names["orders"]
    late = guide.names["late"].num_rows
    now = orders.take([FOLLOWED], ["order", "cents"], metadata=["_row_id", "_row_commit_version"])
    guide.rows(now)
    guide.check(
        (
            f"{count_text(late // 2, 'row')} updated, {count_text(late // 2)} inserted",
            _upserted(metrics) == (late // 2,) * 2,
        ),
        (f"order {FOLLOWED} has the id it had", now["order"].to_pylist() == [FOLLOWED]),
        ("files removed: 0; the old rows are hidden by deletion vectors", metrics["numTargetFilesRemoved"] == 0),
    )


def delete(guide: Guide) -> None:
    guide.step("Delete", "A hundred orders go. Their file stays as it is, a deletion vector of a few bytes hides them.")
    guide.run(code.delete)
    metrics = guide.names["deleted"].metrics
    guide.check(
        ("100 rows deleted", metrics["numDeletedRows"] == 100),
        ("files rewritten: 0", metrics["numAddedFiles"] == metrics["numRemovedFiles"] == 0),
    )


def race(guide: Guide) -> tuple[Writer, ...]:
    guide.step(
        "Three writers at once, in one file",
        "Each has read the same version and changes another row. The first to commit wins; the others look at which "
        "rows it touched, see that theirs are different, and commit on top without writing a data file again.",
    )
    guide.run(code.race)
    orders = guide.names["orders"]
    writers = tuple(
        Writer(name, did, done.attempts, done.version)
        for name, did, done in (
            ("shipping", "order 17: status = shipped", guide.names["shipping"].result()),
            ("billing", "order 18: cents - 100", guide.names["billing"].result()),
            ("support", "order 19: deleted", guide.names["support"].result()),
        )
    )
    heads = [Head("writer"), Head("did"), Head("tries", right=True), Head("committed as version", right=True)]
    guide.grid(heads, [(w.name, w.did, w.tries, w.version) for w in sorted(writers, key=lambda w: w.version)])
    now = orders.toArrow(where="order BETWEEN 16 AND 19", metadata=["_row_id", "_row_commit_version"])
    guide.rows(now.sort_by("order"))
    content = {row["order"]: row for row in now.to_pylist()}
    then = orders.toArrow(["order", "cents"], where="order = 18", version=min(w.version for w in writers) - 1)
    guide.check(
        ("all three landed", len({w.version for w in writers}) == 3),
        ("they did meet: somebody had to try again", max(w.tries for w in writers) > 1),
        ("nobody lost: 17 is shipped, 18 is cheaper, 19 is gone", _all_three(content, then["cents"][0].as_py())),
        ("17 and 18 kept their ids", all(content[n]["_row_id"] == n for n in (17, 18))),
    )
    return writers


def clash(guide: Guide) -> str:
    guide.step("The same row twice", "Where two writers do want the same row, the second is told which, and by whom.")
    conflict = guide.run(code.clash)
    guide.text(conflict)
    guide.check(
        (f"conflict.row_ids is ({FOLLOWED},)", conflict.row_ids == (FOLLOWED,)),
        ("conflict.can_retry says that the same can be tried again", conflict.can_retry),
    )
    return str(conflict).replace(guide.home + "/", "")


def compact(guide: Guide) -> IndexFiles:
    guide.step(
        "Compaction: files churn, rows hold fast", "It writes all small files together. Every row moves; no id does."
    )
    files, place, index = _files(guide), _place(guide), _index_files()
    guide.run(code.compact)
    metrics = guide.names["compacted"].metrics
    guide.bars([("files before", files, str(files)), ("files after", _files(guide), str(_files(guide)))])
    heads = [
        Head(""),
        Head("order", right=True),
        Head("_row_id", right=True),
        Head("file"),
        Head("position", right=True),
    ]
    guide.grid(heads, [("before", *place), ("after", *_place(guide))])
    rows = guide.names["before"].num_rows
    guide.check(
        (f"{metrics['numRemovedFiles']} files were replaced", metrics["numRemovedFiles"] > metrics["numAddedFiles"]),
        (f"{count_text(rows, 'row')} compared: each has its id, its version, its values", guide.names["same"]),
    )
    return index


def look_up_again(guide: Guide, earlier: Sequence[Lookup], index: IndexFiles) -> Lookup:
    guide.step("The index, after the compaction", "Entries name rows, not places, so nothing of the index is written.")
    now = Lookup("index, compacted", _files(guide), guide.run(code.look_up))
    guide.bars([(each.how, each.seconds, f"{each.seconds * 1000:.1f} ms for each") for each in (*earlier, now)])
    matches = guide.names["orders"].lookup(ref=guide.names["refs"], columns=["order"])
    guide.check(
        ("no byte of the index was written or removed", _index_files() == index),
        ("all twenty references lead to their rows", matches.num_rows == 20),
    )
    return now


def changes(guide: Guide) -> tuple[ChangeCounts, ...]:
    guide.step(
        "What happened? Four answers",
        "Everything since the index was made: an upsert, a delete, three writers, a compaction. No change feed was on.",
    )
    counts: Mapping[str, Counter[str]] = guide.run(code.four_kinds)
    heads = [Head("kind"), *(Head(name, right=True) for name in _TYPES)]
    guide.grid(heads, [(kind, *(count_text(rows[name]) for name in _TYPES)) for kind, rows in counts.items()])
    orders, start = guide.names["orders"], guide.names["start"]
    answers = []
    for kind, rows in counts.items():
        began = time.perf_counter()
        change_set = orders.changes(start, kind=kind)
        change_set.toArrow()
        answers.append(ChangeCounts(kind, dict(rows), change_set.bytesRead, time.perf_counter() - began))
    late, net, full = guide.names["late"].num_rows // 2, counts["min-delta"], counts["full-delta"]
    guide.check(
        ("the rows that only moved are in none of them", sum(full.values()) < 6 * late + 300),
        (f"net: {count_text(late)} inserted, 101 deleted", (net["insert"], net["delete"]) == (late, 101)),
        (f"order {FOLLOWED} changed three times, and once net", _updates(full) == _updates(net) + 2),
    )
    return tuple(answers)


def on_spark(guide: Guide, left_out: str) -> None:
    guide.step(
        "The same on Spark", "Any session will do, classic or Connect: the verbs are the same, rows are DataFrames."
    )
    if left_out:
        guide.skip(left_out)
        return
    result: pa.Table = guide.run(code.on_spark, imports=code.SPARK_IMPORTS).toArrow().sort_by("order")
    guide.rows(result)
    rows = {row["order"]: row for row in result.to_pylist()}
    guide.check(
        ("Spark reads the ids that were given without it", all(row["_row_id"] == n for n, row in rows.items())),
        ("20 and 21 are paid, with the ids they had", [rows[n]["status"] for n in (20, 21)] == ["paid"] * 2),
    )


def on_iceberg(guide: Guide) -> None:
    guide.step("The same on Iceberg", "Format version 3 has row ids too: same verbs, same promise.")
    try:
        from holdfast.cli.tour import iceberg_code as part
    except Unsupported as error:
        guide.skip(str(error))
        return
    guide.run(part.on_iceberg, imports=part.IMPORTS)
    ice, then, packed, now = (guide.names[name] for name in ("ice", "then", "packed", "now"))
    guide.rows(ice.take([16, 17, 18], metadata=["_row_id", "_last_updated_sequence_number"]))
    guide.check(
        (f"{packed.metrics['numRemovedFiles']} files were replaced", packed.metrics["numRemovedFiles"] > 1),
        (f"{count_text(then.num_rows, 'row')} compared: same ids, versions, values", now.equals(then)),
    )


def erase(guide: Guide) -> None:
    guide.step("Erase a customer", "Deleted rows leave bytes behind. An erasure finds every file that ever held them.")
    erased = guide.run(code.erase)
    guide.text("\n".join([*str(erased).splitlines()[:3], f"  and {len(erased.files)} old files hold bytes of them"]))
    rows_left = guide.names["orders"].toArrow(columns=["order"], where="customer = 'customer 5'").num_rows
    guide.check(("no row of that customer is left in the table", rows_left == 0))


def biography(guide: Guide) -> Biography:
    guide.step(
        "The life of one row", f"What became of order {FOLLOWED}, row {FOLLOWED}: every file it was in, and why."
    )
    row: Biography = guide.run(code.biography)
    heads = [
        Head("version", right=True),
        Head("operation"),
        Head("the row"),
        Head("file"),
        Head("position", right=True),
    ]
    guide.grid(heads, [(e.version, e.operation, e.what.value, _short(e.file), e.position) for e in row.events])
    changed, moved = (sum(event.what is what for event in row.events) for what in (What.CHANGED, What.MOVED))
    guide.check((f"born once, changed {changed} times, moved {moved} times, alive under one id", row.alive))
    return row


def prove(guide: Guide) -> str:
    guide.step("Prove it", "A vacuum takes the old files. What is left is read by row id, hidden rows and index too.")
    proof = guide.run(code.prove)
    guide.text(proof)
    guide.check(("no file has a byte of these rows", proof.is_clean))
    return str(proof)


def _columns() -> set[tuple[str, ...]]:
    return {tuple(pq.read_schema(path).names) for path in Path("orders").glob("*.parquet")}


def _files(guide: Guide) -> int:
    return int(guide.names["orders"].explain().files_read)


def _place(guide: Guide) -> tuple[int, int, str, int]:
    """The followed row: its number, id, file and position."""
    where = ["_row_id", "_file", "_row_index"]
    [row] = guide.names["orders"].toArrow(["order"], where=f"order = {FOLLOWED}", metadata=where).to_pylist()
    return row["order"], row["_row_id"], _short(row["_file"]), row["_row_index"]


def _index_files() -> IndexFiles:
    """The files of the index, with sizes and modification times."""
    files = (path for path in Path("orders/_holdfast").rglob("*") if path.is_file())
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def _order_of(orders: DeltaTable, ref: str) -> int:
    order: int = orders.lookup(ref=ref, columns=["order"])["order"][0].as_py()
    return order


def _upserted(metrics: Mapping[str, int]) -> tuple[int, int]:
    return metrics["numTargetRowsUpdated"], metrics["numTargetRowsInserted"]


def _all_three(now: Mapping[int, Mapping[str, Any]], cents_then: int) -> bool:
    return now[17]["status"] == "shipped" and now[18]["cents"] == cents_then - 100 and 19 not in now


def _updates(rows: Mapping[str, int]) -> int:
    return rows["update_postimage"]


def _short(file: str | None) -> str:
    """The first characters of a file's name."""
    return "" if file is None else file.rpartition("/")[2].removeprefix("part-00000-")[:8] + "…"
