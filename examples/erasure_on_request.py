"""Erasure on request: somebody asks to be forgotten, and gets proof that it was done.

    python examples/erasure_on_request.py [DIRECTORY]

A shop keeps customers and orders. Both tables have a past: rows were updated, deleted and compacted, an index was
built, last year's audit pinned a version. Deleting Mallory's rows leaves her name in all of those places. `erase` says
in which, the steps it names are taken one after the other, and a certificate is written once no byte is left.

No Spark is started: every verb here runs in this process, on Arrow tables. On large tables, open them with a session.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast import DeltaTable

MALLORY = "Mallory Quill"


@dataclass(frozen=True)
class Forgotten:
    """What the example ends with: where the name was, what the erasure asked to be done, and the certificate."""

    files_before: int
    steps: tuple[str, ...]
    certificate: dict[str, object]


def main(where: Path) -> Forgotten:
    customers, orders = shop(where)

    print(f"\nA request: forget {MALLORY}.")
    left = files_that_say(where, MALLORY)
    print(f"Her name is in {len(left)} files. A DELETE would hide her rows and change none of those files.")

    # By ids, not by values: in an older file she has another name, and is found there all the same.
    reports = {"customers": customers.erase("customer = 7"), "orders": orders.erase("customer = 7")}
    for name, report in reports.items():
        print(f"\n{name}: {report}")

    print("\nThe audit's version goes, the index is made anew, and what nothing needs any more is deleted.")
    customers.unpin("audit 2023")
    customers.rebuildIndex("name")
    for table in (customers, orders):
        # A week from now plain vacuum() would do; nobody else writes here, so the retention may be cut short.
        table.vacuum(0, enforceRetention=False)

    certificate = {
        name: proof(table, reports[name].id) for name, table in (("customers", customers), ("orders", orders))
    }
    (where / "certificate.json").write_text(json.dumps(certificate, indent=2))
    print(f"\n{where / 'certificate.json'}:\n{json.dumps(certificate, indent=2)}")

    assert files_that_say(where, MALLORY) == []
    assert files_that_say(where, "Mallory Birch") == []
    print("\nEvery Parquet file was read once more, value by value: her name is in none, under neither spelling.")
    return Forgotten(len(left), reports["customers"].steps, certificate)


def shop(where: Path) -> tuple[DeltaTable, DeltaTable]:
    """Customers and orders, with a past that a DELETE does not reach."""
    customers = (
        DeltaTable.createOrReplace()
        .location(str(where / "customers"))
        .addColumn("customer", "long")
        .addColumn("name", "string")
        .execute()
    )
    names = [f"Customer {n}" for n in range(20)]
    names[7] = "Mallory Birch"
    customers.append(pa.table({"customer": list(range(20)), "name": names}))
    customers.createIndex("name")
    customers.update("customer = 7", {"name": f"'{MALLORY}'"})  # she married
    customers.refreshIndex("name")
    customers.pin(None, "audit 2023")

    orders = (
        DeltaTable.createOrReplace()
        .location(str(where / "orders"))
        .addColumn("order", "long")
        .addColumn("customer", "long")
        .addColumn("ship_to", "string")
        .execute()
    )
    for day in range(3):
        first = 100 * day
        buyers = [day, 7, 12]
        orders.append(
            pa.table(
                {
                    "order": [first, first + 1, first + 2],
                    "customer": buyers,
                    "ship_to": [f"{MALLORY if buyer == 7 else names[buyer]}, 1 Elm Street" for buyer in buyers],
                }
            )
        )
    orders.delete("order = 101")  # she cancelled one
    orders.optimize().executeCompaction()
    return customers, orders


def proof(table: DeltaTable, erasure: str) -> dict[str, object]:
    """What an auditor is handed; it names no value of a row."""
    status = table.erasureStatus(erasure)
    assert status.is_clean, str(status)
    return {"erasure": erasure, "clean": status.is_clean, "statement": str(status)}


def files_that_say(where: Path, name: str) -> list[Path]:
    """Parquet files below a directory with this text in any column, live or not: the sceptic's way to look."""
    found = []
    for path in sorted(where.rglob("*.parquet")):
        texts = [column for column in pq.read_table(path).columns if pa.types.is_string(column.type)]
        if any(name in (value or "") for column in texts for value in column.to_pylist()):
            found.append(path)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="holdfast-")))
