"""A transaction beside other writers: it comes after them, or not at all and with the reason."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import (
    ConcurrentAppend,
    ConcurrentDeleteRead,
    ConcurrentWrite,
)
from holdfast.verbs.commit.transaction import Transaction
from tests.support.depth import examples
from tests.verbs.transactions import (
    Verb,
    append,
    delete,
    found_in,
    merge,
    net_of,
    opened_again,
    rows_of,
    run_all,
    told_at,
    tracked,
    update,
    values_in,
    verbs,
)

MINE: dict[str, list[Verb]] = {
    "changes": [update("k = 1", {"v": "5"}), delete("k = 2"), update("k = 1", {"v": "v + 1"})],
    "copies": [update("k = 1", {"v": "5"}, "copy-on-write"), delete("k = 2", "copy-on-write")],
    "both": [append([50, 51]), merge([1, 52], 3), delete("k = 50"), delete("k = 3", "copy-on-write")],
    "appends": [append([50]), append([51])],
}

THEIRS: dict[str, Verb] = {
    "delete": delete("k = 5"),
    "update": update("k = 6", {"v": "60"}),
    "update, copying": update("k = 16", {"v": "60"}, "copy-on-write"),
    "append": append([70]),
    "merge": merge([15, 75], 1),
    "compact": lambda t: t.optimize(materializeDeletionsThreshold=0).executeCompaction(),
    "purge": lambda t: t.purge(),
}


@pytest.mark.parametrize("theirs", THEIRS)
@pytest.mark.parametrize("mine", MINE)
def test_writers_of_other_rows_do_not_stand_in_its_way(mine: str, theirs: str, meanwhile: Any) -> None:
    table, alone = tracked(), tracked()
    for each in (table, alone):
        each.delete("k = 9")
    before = found_in(table)
    other = opened_again(table).alias("t")
    meanwhile(lambda: THEIRS[theirs](other))
    with table.transaction() as t:
        for run in MINE[mine]:
            run(t)
    assert t.result.attempts == 2
    for run in (THEIRS[theirs], *MINE[mine]):
        run(alone)
    after = found_in(table)
    assert values_in(table) == values_in(alone)
    assert all(after[id_][0][0] == row[0] for id_, (row, _) in before.items() if id_ in after)
    assert table.check().clean


@examples(20)
@given(
    st.lists(verbs(["merge-on-read", "copy-on-write", "auto"]), min_size=1, max_size=4),
    st.lists(
        verbs(["merge-on-read", "copy-on-write"]) | st.sampled_from([THEIRS["compact"], THEIRS["purge"]]),
        min_size=1,
        max_size=2,
    ),
    st.booleans(),
)
def test_whatever_others_do_it_comes_after_them_or_not_at_all(mine: list[Verb], theirs: list[Verb], feed: bool) -> None:
    table, alone = (tracked(enableChangeDataFeed=str(feed).lower()) for _ in range(2))
    for each in (table, alone):
        each.delete("k = 9")
    other = opened_again(table).alias("t")
    foreseen = lost = None
    try:
        with table.transaction() as t:
            for run in mine:
                run(t)
            for run in theirs:
                run(other)
                run(alone)
            foreseen = t.wouldConflict()
            before, version = found_in(other), other.version
    except ConcurrentWrite as conflict:
        lost = conflict
    else:
        after = found_in(table)
        if t.result.version is not None:  # else it changed nothing where it began, and stands before the others
            for run in mine:
                run(alone)
            net = net_of(before, after, t.result.version)
            assert told_at(table.changes(version + 1, version + 1).toArrow()) == net
            if feed:
                assert told_at(table.changeFeed(version + 1, version + 1).toArrow()) == net
    assert str(lost) == str(foreseen)
    assert values_in(table) == values_in(alone)
    assert table.check().clean


LOST: dict[str, tuple[list[Verb], Verb, type[ConcurrentWrite]]] = {
    "a row of the second verb": (
        [delete("k = 1"), update("k = 2", {"v": "5"})],
        update("k = 2", {"v": "6"}),
        ConcurrentDeleteRead,
    ),
    "a row it copied before it changed it": (
        [delete("k = 1", "copy-on-write"), update("k = 2", {"v": "5"}, "copy-on-write")],
        update("k = 2", {"v": "6"}),
        ConcurrentDeleteRead,
    ),
    "a row it copied before it deleted it": (
        [update("k = 1", {"v": "1"}, "copy-on-write"), delete("k < 10"), append([50])],
        delete("k = 2"),
        ConcurrentDeleteRead,
    ),
    "a row it copied before it met it": (
        [delete("k = 1", "copy-on-write"), merge([2, 50], 1)],
        delete("k = 2"),
        ConcurrentDeleteRead,
    ),
    "a row the first verb would have taken": (
        [update("k = 70", {"v": "5"}), append([50])],
        append([70]),
        ConcurrentAppend,
    ),
    "a row the last verb would have taken": (
        [append([50]), delete("k = 1"), merge([70], 1)],
        merge([70], 2),
        ConcurrentAppend,
    ),
}


@pytest.mark.parametrize("case", LOST)
def test_a_race_for_one_row_is_lost_and_foreseen(case: str, meanwhile: Any) -> None:
    mine, theirs, kind = LOST[case]
    table = tracked()
    other = opened_again(table).alias("t")
    foreseen: list[ConcurrentWrite | None] = []
    foresee: Verb = lambda t: foreseen.append(t.wouldConflict())  # noqa: E731
    with pytest.raises(ConcurrentWrite) as caught:
        run_all(table, *mine, foresee, lambda _: theirs(other), foresee)
    assert foreseen[0] is None
    told = foreseen[1]
    assert told is not None
    assert isinstance(caught.value, kind)
    assert (type(told), str(told)) == (type(caught.value), str(caught.value))
    assert (table.version, caught.value.version) == (3, 3)
    assert "this TRANSACTION of" in str(told)


def test_deletes_that_others_did_too_are_left_out(meanwhile: Any) -> None:
    table = tracked()
    other = opened_again(table)
    meanwhile(lambda: other.delete("k IN (1, 12)"))
    with table.transaction() as t:
        t.delete("k < 3")
        t.delete("k IN (12, 13)")
    assert t.result.metrics["numDeletedRows"] == 3
    assert [k for k, *_ in values_in(table)] == [3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19]


def test_what_was_handed_out_counts_as_all_rows() -> None:
    table = tracked()
    other = opened_again(table)
    with pytest.raises(ConcurrentAppend):
        run_all(table, lambda t: t.append(rows_of([len(t.toArrow()) + 100])), lambda _: other.append(rows_of([70])))
    look: Verb = lambda t: t.toArrow(["k"], where="k = 2")  # noqa: E731
    with pytest.raises(ConcurrentWrite):
        run_all(table, delete("k = 1"), look, lambda _: other.update("k = 15", {"v": "5"}))
    with table.transaction(isolation="WriteSerializable") as t:
        t.update("k = 1", {"v": "5"})
        other.append(rows_of([1]))
    assert [row for row in values_in(table) if row[0] == 1] == [(1, 0, "b"), (1, 5, "b")]


def test_transact_begins_anew_when_others_come_first() -> None:
    table = tracked()
    other = opened_again(table)
    runs = count(1)

    def work(t: Transaction) -> None:
        t.update("k = 1", {"v": "v + 1"})
        t.append(rows_of([len(t.toArrow()) + 100]))
        if next(runs) == 1:
            other.update("k = 1", {"v": "10"})
            other.append(rows_of([70]))

    done = table.transact(work, retry=3, userMetadata="again")
    assert done.version == 5
    assert next(runs) == 3
    assert {k: v for k, v, _ in values_in(table)}[1] == 11
    assert 121 in {k for k, *_ in values_in(table)}
    runs = count(1)
    with pytest.raises(ConcurrentWrite):
        table.transact(work)
