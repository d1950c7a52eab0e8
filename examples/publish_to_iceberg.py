"""A Delta table for those who read Iceberg: published change by change, every row under the id it has.

    python examples/publish_to_iceberg.py [DIRECTORY]

    orders           a Delta table that a shop works on: orders come, change, are taken back; files are compacted
    shop.orders      the same rows as an Iceberg table, for engines that read nothing else
    archive          the same rows once more as a Delta table, published from the Iceberg table

Nobody keeps a list of what was published. The copy says itself how far it is, in the commit that brought the rows, so
the job that publishes may die anywhere and be run again. A reader of the copy who notes a row's id finds it in the
shop's own table, and the other way round; and what changed in the copy is what changed in the shop.

No Spark is started here. Opened with a session, the same calls run on it. Needs the extra holdfast[iceberg].
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from holdfast import Conflict, DeltaTable, IcebergTable

COLUMNS = pa.schema([("order", pa.int64()), ("customer", pa.string()), ("cents", pa.int64())])


@dataclass(frozen=True)
class Ended:
    """What the example ends with: each table by row id, what each night brought, and why the copy was refused once."""

    orders: dict[int, tuple[int, int]]
    copy: dict[int, tuple[int, int]]
    archive: dict[int, tuple[int, int]]
    nights: tuple[tuple[int, int, int], ...]  # rows inserted, updated, deleted
    changes: tuple[str, ...]  # what changed in the copy on the second night
    refused: str


def main(where: Path) -> Ended:
    orders = DeltaTable.create().location(str(where / "orders")).addColumns(COLUMNS).execute()
    orders.append(arrived(range(1, 1001)))
    copy = IcebergTable.createLike(
        None, where / "catalog.db", "shop.orders", orders, partitionedBy=["bucket(4, order)"]
    )

    print("\nThe first night: 1,000 orders go over.")
    nights = [night(orders, copy)]

    print("\nA day goes by: orders change, one is taken back, ten are new; then files are compacted.")
    orders.update("order % 100 = 0", {"cents": "cents + 500"})
    orders.delete("order = 7")
    orders.append(arrived(range(1001, 1011)))
    orders.optimize().executeCompaction()
    nights.append(night(orders, copy))
    changed = copy.changes(copy.version).toArrow()
    kinds = tuple(sorted(changed["_change_type"].to_pylist()))
    print(f"Readers of the copy see {len(kinds) - kinds.count('update_preimage')} changes of rows, as in the shop.")

    print("\nThe job runs once more, by mistake, and again after the copy was compacted.")
    nights.append(night(orders, copy))
    copy.optimize().executeCompaction()
    nights.append(night(orders, copy))

    print("\nWho has a row id from one table finds the row in the other:")
    row_id = orders.toArrow(columns=["order"], where="order = 1005", metadata=["_row_id"])["_row_id"][0].as_py()
    for table in (orders, copy):
        print(f"  {table.take([row_id]).to_pylist()[0]}")
    known = copy.published()
    at = copy.take([row_id], columns=[], metadata=["_last_updated_sequence_number"]).column(0)[0].as_py()
    first, last = known.versions(at)
    print(f"  last changed by sequence number {at} there, which is one of the versions {first} to {last} here")

    print("\nThe copy is published in turn, to a Delta table elsewhere.")
    archive = DeltaTable.createLike(None, where / "archive", copy)
    copy.publish(archive)

    print("\nSomebody writes to the copy, which is then none any more.")
    copy.append(arrived(range(5000, 5001)))
    orders.delete("order = 8")
    refused = ""
    try:
        orders.publish(copy)
    except Conflict as error:
        refused = str(error)
        print(f"  {refused}")
    orders.publish(copy, afresh=True)
    copy.publish(archive)

    return Ended(by_id(orders), by_id(copy), by_id(archive), tuple(nights), kinds, refused)


def night(orders: DeltaTable, copy: IcebergTable) -> tuple[int, int, int]:
    """What the nightly job does: one line, whatever happened since."""
    done = orders.publish(copy)
    if done.versions is None:
        print("  nothing to publish")
    else:
        first, last = done.versions
        told = f"{done.inserted} new, {done.updated} changed, {done.deleted} gone, in {done.files} files"
        print(f"  versions {first} to {last}: {told}")
    return done.inserted, done.updated, done.deleted


def arrived(numbers: range) -> pa.Table:
    names = ("Ada", "Ben", "Cleo", "Dov")
    columns = [list(numbers), [names[n % len(names)] for n in numbers], [100 * n for n in numbers]]
    return pa.table(columns, schema=COLUMNS)


def by_id(table: DeltaTable | IcebergTable) -> dict[int, tuple[int, int]]:
    rows = table.toArrow(columns=["order", "cents"], metadata=["_row_id"]).to_pylist()
    return {row["_row_id"]: (row["order"], row["cents"]) for row in rows}


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="holdfast-")))
