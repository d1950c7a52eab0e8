"""A slowly changing dimension of type 2: who lived where, when, from what happened to the rows of a source.

    python examples/slowly_changing_dimension.py [DIRECTORY]

A list of members is edited all day: people move, change their e-mail address, leave. The dimension keeps every
state a member was in, `since` inclusive and `until` exclusive, the current one open. It is made from change queries
alone: the source keeps no history table, no triggers, no column of times.

Members have no key that lasts, since an e-mail address may change. Their row id does.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import holdfast
from holdfast import DeltaTable

STATE = ("email", "city")


@dataclass(frozen=True)
class Story:
    """What the example ends with: the states of Ben, and who lived where before and now."""

    ben: list[tuple[str, str, bool]]
    then: dict[str, str]
    now: dict[str, str]
    commits: int


def main(spark: SparkSession, where: Path) -> Story:
    # The members' own application is small and needs no Spark: opened without a session, it writes Arrow tables.
    application = DeltaTable.createOrReplace().location(str(where / "members"))
    application = application.addColumn("email", "string").addColumn("city", "string").execute()
    members = DeltaTable.forPath(spark, where / "members")
    dimension = (
        DeltaTable.createOrReplace(spark)
        .location(str(where / "member_history"))
        .addColumn("member", "long", comment="the row id in members")
        .addColumn("email", "string")
        .addColumn("city", "string")
        .addColumn("since", "timestamp")
        .addColumn("until", "timestamp")
        .execute()
    )

    print("\nMorning: three members.")
    application.append(joined({"ada@x.org": "Oslo", "ben@x.org": "Lima", "cleo@x.org": "Pune"}))
    token = keep_up(members, dimension, start=1)
    noon = application.historyArrow(1)["timestamp"][0].as_py()

    print(
        "During the day: Ben moves, takes another address and moves again; Ada leaves; Dov joins; files are compacted."
    )
    application.update("email = 'ben@x.org'", {"city": "'Quito'"})
    application.update("email = 'ben@x.org'", {"email": "'benjamin@y.net'"})
    application.update("email = 'benjamin@y.net'", {"city": "'Rome'"})
    application.delete("email = 'ada@x.org'")
    application.append(joined({"dov@x.org": "Lima"}))
    application.optimize().executeCompaction()
    keep_up(members, dimension, resume=token)
    keep_up(members, dimension, resume=token)  # a job that runs twice changes nothing

    rows = dimension.toDF().orderBy("member", "since")
    rows.show(truncate=False)
    ben = rows.where("member = 1").collect()
    print("Ben is one member all along, under two addresses: his row id says so.")
    return Story(
        ben=[(row.email, row.city, row.until is None) for row in ben],
        then=as_of(dimension, F.lit(noon)),
        now=as_of(dimension, F.current_timestamp()),
        commits=dimension.version,
    )


def joined(homes: dict[str, str]) -> pa.Table:
    return pa.table({"email": list(homes), "city": list(homes.values())})


def keep_up(members: DeltaTable, dimension: DeltaTable, **since: int | str) -> str:
    """Bring the dimension up to date, in one commit; gives the token to go on with."""
    changes = members.changes(kind="full-delta", **since)
    if changes.endVersion >= changes.startVersion:
        states = states_of(changes.toDF())
        # The open state of a member that changed ends where its first new state begins; then come the new states.
        ended = states.groupBy("member").agg(F.min("since").alias("until"))
        opened = states.where("NOT gone").select("member", *STATE, "since", "until")
        with dimension.alias("t").transaction(txn=("keep_up", changes.endVersion)) as t:
            merge = t.merge(ended, "t.member = s.member AND t.until IS NULL")
            merge.whenMatchedUpdate(set={"until": "s.until"}).execute()
            t.append(opened)
    return changes.resumeToken


def states_of(changes: DataFrame) -> DataFrame:
    """What each member was after each commit, and until when."""
    after = changes.where("_change_type != 'update_preimage'")
    by_member = Window.partitionBy("_row_id").orderBy("_commit_version")
    return after.select(
        F.col("_row_id").alias("member"),
        *STATE,
        F.col("_commit_timestamp").alias("since"),
        F.lead("_commit_timestamp").over(by_member).alias("until"),
        (F.col("_change_type") == "delete").alias("gone"),
    )


def as_of(dimension: DeltaTable, moment: Column) -> dict[str, str]:
    """Who lived where at a time."""
    held = dimension.toDF().where((F.col("since") <= moment) & (F.col("until").isNull() | (F.col("until") > moment)))
    return {row.email: row.city for row in held.collect()}


if __name__ == "__main__":
    main(holdfast.session(), Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="holdfast-")))
