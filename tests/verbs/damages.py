"""Each kind of damage a check knows, done by hand, with what is to be found and whether a repair mends it."""

from __future__ import annotations

import json
from collections.abc import Callable

from holdfast.env import system
from holdfast.formats.delta import deletion_vectors as vectors
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.state import load
from holdfast.model.finding import FindingKind
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from tests.support.damage import (
    Action,
    actions,
    append,
    bare,
    commit_key,
    each_add,
    live,
    log_key,
    opened,
    rewrite,
)


def vector_file(store: ObjectStore) -> str:
    """A file of vectors that a live file needs."""
    hiding = [row for row in live(store).to_pylist() if row["dv"] is not None]
    key = vectors.dv_file(Location(store, "t"), hiding[0]["key"], "u", hiding[0]["dv"]["path"])
    return f"t/{key}"


def missing_file(store: ObjectStore) -> None:
    store.delete("t/" + live(store).column("key")[0].as_py())


def wrong_size(store: ObjectStore) -> None:
    bare(store)
    rewrite(store, 5, each_add(lambda add: add.update(size=add["size"] + 1)))


def bad_file(store: ObjectStore) -> None:
    key = "t/" + next(line["add"]["path"] for line in actions(store, 5) if "add" in line)
    store.put(key, b"x" * len(store.get(key)))


def wrong_count(store: ObjectStore) -> None:
    bare(store)

    def change(add: Action) -> None:
        add["stats"] = json.dumps({**json.loads(add["stats"]), "numRecords": 4})

    rewrite(store, 5, each_add(change))


def no_ids(store: ObjectStore) -> None:
    bare(store)
    rewrite(store, 5, each_add(lambda add: add.pop("baseRowId")))


def mark_below(store: ObjectStore) -> None:
    bare(store)

    def change(lines: list[Action]) -> list[Action]:
        return [line for line in lines if "domainMetadata" not in line]

    for version in (4, 5):
        rewrite(store, version, change)


def reused(store: ObjectStore) -> None:
    """A file gets ids of another that lost all its rows, as after a restore that lowers the mark."""
    table = opened(store)
    table.delete("id >= 20")
    before = [line["remove"]["baseRowId"] for line in actions(store, 7) if "remove" in line]
    append(table, range(30, 32))
    bare(store)
    rewrite(store, 8, each_add(lambda add: add.update(baseRowId=before[0])))


def duplicate(store: ObjectStore) -> None:
    bare(store)
    rewrite(store, 5, each_add(lambda add: add.update(baseRowId=0)))


def missing_vector(store: ObjectStore) -> None:
    store.delete(vector_file(store))


def torn_vector(store: ObjectStore) -> None:
    key = vector_file(store)
    data = bytearray(store.get(key))
    data[-1] ^= 0xFF
    store.put(key, bytes(data))


def miscounted_vector(store: ObjectStore) -> None:
    bare(store)
    rewrite(store, 6, each_add(lambda add: add["deletionVector"].update(cardinality=7)))


def double_add(store: ObjectStore) -> None:
    bare(store)
    rewrite(store, 6, lambda lines: [line for line in lines if "remove" not in line])


def missed_remove(store: ObjectStore) -> None:
    """A removal without the vector, as Trino wrote: the file stays."""
    table = opened(store)
    table.delete("id < 10")
    bare(store)

    def change(lines: list[Action]) -> list[Action]:
        for line in lines:
            line.get("remove", {}).pop("deletionVector", None)
        return lines

    rewrite(store, 7, change)


def bad_commit(store: ObjectStore) -> None:
    store.put(commit_key(1), b'{"add": 7}\n')


def missing_commit(store: ObjectStore) -> None:
    store.delete(commit_key(2))


def bad_checkpoint(store: ObjectStore) -> None:
    store.put(log_key(f"{3:020d}.checkpoint.parquet"), b"PAR1 not really PAR1")


def wrong_checkpoint(store: ObjectStore) -> None:
    """The commits say one thing, the checkpoint of the same version another."""
    location = Location(store, "t")
    store.delete(log_key(f"{3:020d}.checkpoint.parquet"))
    kept = store.get(commit_key(2))
    rewrite(store, 2, lambda lines: [line for line in lines if "add" not in line])
    write_checkpoint(load(location, version=3), system())
    store.put(commit_key(2), kept)


def wrong_newest_checkpoint(store: ObjectStore) -> None:
    """The one that everybody reads: rows are missing, and nobody is told."""
    kept = store.get(commit_key(5))
    for name in (f"{3:020d}.checkpoint.parquet", f"{6:020d}.checkpoint.parquet", f"{6:020d}.crc", "_last_checkpoint"):
        store.delete(log_key(name))
    rewrite(store, 5, lambda lines: [line for line in lines if "add" not in line])
    write_checkpoint(load(Location(store, "t")), system())
    store.put(commit_key(5), kept)


def unclear_checkpoint(store: ObjectStore) -> None:
    """Two checkpoints and the commits between them do not add up, and the first commits are gone."""
    wrong_newest_checkpoint(store)
    kept = store.get(log_key(f"{6:020d}.checkpoint.parquet"))
    store.delete(log_key(f"{6:020d}.checkpoint.parquet"))
    write_checkpoint(load(Location(store, "t"), version=3), system())
    store.put(log_key(f"{6:020d}.checkpoint.parquet"), kept)
    for version in range(3):
        store.delete(commit_key(version))


def wrong_compaction(store: ObjectStore) -> None:
    opened(store).compactLog(1, 2)
    key = log_key(f"{1:020d}.{2:020d}.compacted.json")
    kept = [line for line in store.get(key).splitlines() if b'"add"' not in line]
    store.put(key, b"\n".join(kept) + b"\n")


def lost_hint(store: ObjectStore) -> None:
    store.delete(log_key(f"{6:020d}.checkpoint.parquet"))


def torn_hint(store: ObjectStore) -> None:
    store.put(log_key("_last_checkpoint"), b'{"version": 6')


def miscounting_hint(store: ObjectStore) -> None:
    key = log_key("_last_checkpoint")
    told = {k: v for k, v in json.loads(store.get(key)).items() if k != "checksum"}
    store.put(key, json.dumps({**told, "numOfAddFiles": 99}).encode())


def bad_checksum(store: ObjectStore) -> None:
    key = log_key(f"{6:020d}.crc")
    store.put(key, json.dumps({**json.loads(store.get(key)), "numFiles": 99}).encode())


def torn_checksum(store: ObjectStore) -> None:
    store.put(log_key(f"{6:020d}.crc"), b'{"numF')


Damage = Callable[[ObjectStore], None]

DAMAGES: list[tuple[Damage, set[FindingKind], bool]] = [  # what is done, what is found, whether a repair mends it
    (missing_file, {FindingKind.MISSING_FILE}, False),
    (wrong_size, {FindingKind.WRONG_SIZE}, False),
    (bad_file, {FindingKind.BAD_FILE}, False),
    (wrong_count, {FindingKind.WRONG_COUNT}, True),
    (no_ids, {FindingKind.NO_ROW_IDS}, True),
    (mark_below, {FindingKind.MARK_BELOW_DATA}, True),
    (reused, {FindingKind.REUSED_IDS}, False),
    (duplicate, {FindingKind.DUPLICATE_IDS, FindingKind.REUSED_IDS}, False),
    (missing_vector, {FindingKind.MISSING_VECTOR}, False),
    (torn_vector, {FindingKind.BAD_VECTOR}, False),
    (miscounted_vector, {FindingKind.BAD_VECTOR}, False),
    (double_add, {FindingKind.DOUBLE_ADD, FindingKind.DUPLICATE_IDS}, False),
    (missed_remove, {FindingKind.REMOVE_MISSED}, False),
    (bad_commit, {FindingKind.BAD_COMMIT}, False),
    (missing_commit, {FindingKind.MISSING_COMMIT}, False),
    (bad_checkpoint, {FindingKind.BAD_CHECKPOINT}, True),
    (wrong_checkpoint, {FindingKind.WRONG_CHECKPOINT}, True),
    (unclear_checkpoint, {FindingKind.WRONG_CHECKPOINT}, False),
    (wrong_compaction, {FindingKind.WRONG_COMPACTION}, True),
    (lost_hint, {FindingKind.BAD_HINT}, True),
    (torn_hint, {FindingKind.BAD_HINT}, True),
    (miscounting_hint, {FindingKind.BAD_HINT}, True),
    (bad_checksum, {FindingKind.BAD_CHECKSUM}, True),
    (torn_checksum, {FindingKind.BAD_CHECKSUM}, True),
]
