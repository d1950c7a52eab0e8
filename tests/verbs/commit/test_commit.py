"""The commit loop over staged files that nobody has to read: ids, races, faults, lost answers."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import env
from holdfast.errors import ConcurrentWrite, Invalid, OutcomeUnknown, TableError
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.mutation import STAGED, AllRows, AppVersion, Mutation, RowsWhere, TableDefinition
from holdfast.predicate.parse import parse
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.commit.loop import commit
from holdfast.verbs.dml.write_mutation import CommitOptions, appended, is_about_partitions, overwritten, refuse_outside
from tests.support.depth import DEPTH, examples
from tests.support.faulty import Crash, every_fault

SCHEMA = Struct((Field("id", LONG), Field("p", STRING)))
TRACKED = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}


def at(store: ObjectStore) -> Location:
    return Location(store, "t")


def create(store: ObjectStore, *, partitions: tuple[str, ...] = (), properties: dict[str, str] | None = None) -> None:
    shape = TableDefinition(SCHEMA, partitions, TRACKED if properties is None else properties)
    commit(DeltaFormat(at(store)), None, Mutation("CREATE TABLE", shape=shape), env.system())


def staged(name: str, counts: Iterable[int], partition: str | None = None) -> pa.Table:
    rows = [
        {
            "key": f"{name}-{i}.parquet",
            "size": 10,
            "modified_ms": env.system().now_ms(),
            "partition_values": {} if partition is None else {"p": partition},
            "num_records": count,
            "stats": f'{{"numRecords":{count}}}',
        }
        for i, count in enumerate(counts)
    ]
    return pa.Table.from_pylist([{**r, "partition_values": list(r["partition_values"].items())} for r in rows], STAGED)


def append(
    store: ObjectStore, name: str, counts: Iterable[int], state: DeltaState | None = None, **said: object
) -> None:
    format_ = DeltaFormat(at(store))
    state = state or load(at(store))
    mutation = appended(state.snapshot, staged(name, counts), CommitOptions(**said))
    commit(format_, state, mutation, env.system())


def ids(state: DeltaState) -> list[int]:
    files = state.snapshot.files
    bases = files.column("base_row_id").to_pylist()
    counts = files.num_records.to_pylist()
    return sorted(i for base, count in zip(bases, counts, strict=True) for i in range(base, base + count))


def test_ids_follow_from_commit_to_commit() -> None:
    store = MemoryStore()
    create(store)
    append(store, "a", [1])
    append(store, "b", [3, 0, 2])
    state = load(at(store))
    assert ids(state) == list(range(6))
    assert state.snapshot.identity is not None
    assert state.snapshot.identity.high_water == 5
    files = state.snapshot.files.table.select(["key", "base_row_id"]).to_pylist()
    assert [(f["key"], f["base_row_id"]) for f in files] == [
        ("a-0.parquet", 0),
        ("b-0.parquet", 1),
        ("b-1.parquet", 4),
        ("b-2.parquet", 4),
    ]
    assert set(state.snapshot.files.column("default_row_commit_version").to_pylist()) == {1, 2}


@given(counts=st.lists(st.lists(st.integers(0, 5), max_size=3), max_size=6), stale=st.booleans())
@examples(20)
def test_ids_are_unique_and_the_mark_never_falls(counts: list[list[int]], stale: bool) -> None:
    """Every writer may have read the first version: it is stamped above whoever won."""
    store = MemoryStore()
    create(store)
    first = load(at(store))
    marks = [-1]
    for i, files in enumerate(counts):
        append(store, f"f{i}", files, first if stale else None)
        identity = load(at(store)).snapshot.identity
        assert identity is not None
        marks.append(identity.high_water)
    assert marks == sorted(marks)
    found = ids(load(at(store)))
    assert found == list(range(sum(map(sum, counts))))


def test_a_fault_anywhere_leaves_the_old_or_the_new_table() -> None:
    def run(store: ObjectStore) -> None:
        create(store)
        append(store, "a", [2, 1])
        append(store, "b", [3], app=AppVersion("job", 1))

    def check(store: ObjectStore) -> None:
        try:
            state = load(at(store))
        except TableError:
            assert not list(store.list_from("t/_delta_log"))
            return
        keys = set(state.snapshot.files.column("key").to_pylist())
        assert keys in (set(), {"a-0.parquet", "a-1.parquet"}, {"a-0.parquet", "a-1.parquet", "b-0.parquet"})
        assert ids(state) == list(range(len(ids(state))))

    tried = every_fault(run, check)
    assert tried > 10


def test_a_lost_answer_is_not_committed_twice() -> None:
    store = MemoryStore()
    create(store)

    class Deaf:
        """Writes, then loses the answer."""

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def put_if_absent(self, key: str, data: bytes) -> bool:
            store.put_if_absent(key, data)
            raise OutcomeUnknown("no answer")

    append(Deaf(), "a", [1])  # type: ignore[arg-type]
    assert load(at(store)).version == 1


def test_an_answer_that_cannot_be_known_says_so() -> None:
    store = MemoryStore()
    create(store)

    class Gone:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def put_if_absent(self, key: str, data: bytes) -> bool:
            raise OutcomeUnknown("no answer")

    with pytest.raises(OutcomeUnknown, match="look at the table's history"):
        append(Gone(), "a", [1])  # type: ignore[arg-type]


def test_an_application_version_is_written_once() -> None:
    store = MemoryStore()
    create(store)
    append(store, "a", [1], app=AppVersion("job", 7))
    append(store, "again", [1], app=AppVersion("job", 7))
    append(store, "older", [1], app=AppVersion("job", 3))
    append(store, "next", [1], app=AppVersion("job", 8))
    assert load(at(store)).snapshot.files.column("key").to_pylist() == ["a-0.parquet", "next-0.parquet"]


def test_many_appenders_at_once() -> None:
    store = MemoryStore()
    create(store)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for i in range(4 * min(DEPTH, 5)):
                append(store, f"{name}-{i}", [3, 2])
        except (TableError, Crash, AssertionError) as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    state = load(at(store))
    commits = 8 * 4 * min(DEPTH, 5)
    assert state.version == commits
    assert np.array_equal(ids(state), np.arange(commits * 5))


def test_overwrite_and_what_it_cannot_stand_beside() -> None:
    store = MemoryStore()
    create(store, partitions=("p",))
    commit_staged(store, staged("a", [1], "x"))
    old = load(at(store))
    commit_staged(store, staged("b", [1], "y"))
    format_ = DeltaFormat(at(store))
    with pytest.raises(ConcurrentWrite, match=r"version 2, a WRITE.*b-0\.parquet") as caught:
        commit(format_, old, overwritten(old.snapshot, staged("c", [1], "x"), CommitOptions()), env.system())
    assert (caught.value.kind, caught.value.version) == ("append", 2)
    where = parse("p = 'x'", SCHEMA)
    only_x = overwritten(old.snapshot, staged("c", [1], "x"), CommitOptions(), where=where, where_text="p = 'x'")
    commit(format_, old, only_x, env.system())
    assert set(load(at(store)).snapshot.files.column("key").to_pylist()) == {"b-0.parquet", "c-0.parquet"}
    with pytest.raises(ConcurrentWrite, match="removed files that this one removes"):
        commit(format_, old, only_x, env.system())


def commit_staged(store: ObjectStore, files: pa.Table) -> None:
    state = load(at(store))
    commit(DeltaFormat(at(store)), state, appended(state.snapshot, files, CommitOptions()), env.system())


def test_replace_where_is_about_partitions() -> None:
    store = MemoryStore()
    create(store, partitions=("p",))
    snapshot = load(at(store)).snapshot
    about = {
        text: is_about_partitions(snapshot, parse(text, SCHEMA)) for text in ("p = 'x'", "id > 3", "p > 'a' OR id = 1")
    }
    assert list(about.values()) == [True, False, False]
    with pytest.raises(Invalid, match="'p': 'z'"):
        refuse_outside(snapshot, staged("a", [1], "z"), parse("p = 'x'", SCHEMA), "p = 'x'")
    refuse_outside(snapshot, staged("a", [1], "x"), parse("p = 'x'", SCHEMA), "p = 'x'")


def test_two_creators() -> None:
    store = MemoryStore()
    create(store)
    with pytest.raises(ConcurrentWrite, match="created the table"):
        create(store)


def test_plain_tables_stay_on_old_protocols() -> None:
    store = MemoryStore()
    create(store, properties={})
    assert (load(at(store)).protocol.min_reader_version, load(at(store)).protocol.min_writer_version) == (1, 2)
    tracked = MemoryStore()
    create(tracked)
    protocol = load(at(tracked)).protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert protocol.reader_features == ("deletionVectors",)
    assert set(protocol.writer_features or ()) >= {"rowTracking", "domainMetadata", "deletionVectors"}


def test_what_reads_is_a_value() -> None:
    assert RowsWhere(parse("id = 1", SCHEMA)) == RowsWhere(parse("id = 1", SCHEMA))
    assert AllRows() != RowsWhere(parse("id = 1", SCHEMA))
