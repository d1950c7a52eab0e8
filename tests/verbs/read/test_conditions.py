"""A condition is SQL text or a Column, wherever one is taken; anything else is refused before anything is read."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Column
from pyspark.sql.connect.column import Column as ConnectColumn
from pyspark.sql.connect.expressions import ColumnReference

from holdfast import DeltaTable, IcebergTable
from holdfast.errors import Invalid, NotACondition
from holdfast.verbs.commit.transaction import Transaction
from holdfast.verbs.dml.assignments import stated_sets
from holdfast.verbs.dml.merge import DeltaMergeBuilder
from holdfast.verbs.dml.verbs import Plans
from holdfast.verbs.maintain.optimize import DeltaOptimizeBuilder
from holdfast.verbs.open.delta_handle import DeltaHandle
from holdfast.verbs.open.iceberg_handle import IcebergHandle
from holdfast.verbs.open.spark_values import stated, stated_in_text, stated_or_none
from tests.verbs.changing_rows import table, values

WRONG: tuple[Any, ...] = (True, False, 0, 1, 2.5, b"id = 1", ["id = 1"], {"id": 1}, np.True_, object(), Column)
TAKING = ("condition", "where", "replaceWhere", "replaceOn")
ROWS = values((1, "b"))
NOTHING = {"v": "'z'"}
Call = Callable[[Any, Any], Any]  # of what has the verb, and what is given for a condition

CALLS: dict[tuple[type, str, str], Call] = {
    (DeltaTable, "delete", "condition"): lambda t, c: t.delete(c),
    (DeltaTable, "update", "condition"): lambda t, c: t.update(c, NOTHING),
    (DeltaTable, "merge", "condition"): lambda t, c: t.merge(ROWS, c),
    (DeltaTable, "scan", "where"): lambda t, c: t.scan(where=c),
    (DeltaTable, "toArrow", "where"): lambda t, c: t.toArrow(where=c),
    (DeltaTable, "explain", "where"): lambda t, c: t.explain(where=c),
    (DeltaTable, "nearest", "where"): lambda t, c: t.nearest("v", [1.0], where=c),
    (DeltaTable, "nearestDF", "where"): lambda t, c: t.nearestDF("v", [1.0], where=c),
    (DeltaTable, "erase", "condition"): lambda t, c: t.erase(c),
    (DeltaTable, "erasureStatus", "condition"): lambda t, c: t.erasureStatus("x", c),
    (DeltaTable, "mergeStream", "condition"): lambda t, c: t.mergeStream(c, appId="a"),
    (DeltaTable, "overwrite", "replaceWhere"): lambda t, c: t.overwrite(ROWS, replaceWhere=c),
    (DeltaTable, "overwrite", "replaceOn"): lambda t, c: t.overwrite(ROWS, replaceOn=c),
    (DeltaTable, "addConstraint", "expression"): lambda t, c: t.addConstraint("c", c),
    (Plans, "delete", "condition"): lambda t, c: t.delete(c),
    (Plans, "update", "condition"): lambda t, c: t.update(c, NOTHING),
    (Transaction, "delete", "condition"): lambda t, c: t.delete(c),
    (Transaction, "update", "condition"): lambda t, c: t.update(c, NOTHING),
    (Transaction, "merge", "condition"): lambda t, c: t.merge(ROWS, c),
    (Transaction, "toArrow", "where"): lambda t, c: t.toArrow(where=c),
    (DeltaOptimizeBuilder, "where", "condition"): lambda t, c: t.where(c),
    (DeltaMergeBuilder, "whenMatchedUpdate", "condition"): lambda t, c: t.whenMatchedUpdate(c, NOTHING),
    (DeltaMergeBuilder, "whenMatchedUpdateAll", "condition"): lambda t, c: t.whenMatchedUpdateAll(c),
    (DeltaMergeBuilder, "whenMatchedDelete", "condition"): lambda t, c: t.whenMatchedDelete(c),
    (DeltaMergeBuilder, "whenNotMatchedInsert", "condition"): lambda t, c: t.whenNotMatchedInsert(c, NOTHING),
    (DeltaMergeBuilder, "whenNotMatchedInsertAll", "condition"): lambda t, c: t.whenNotMatchedInsertAll(c),
    (DeltaMergeBuilder, "whenNotMatchedBySourceUpdate", "condition"): (
        lambda t, c: t.whenNotMatchedBySourceUpdate(c, NOTHING)
    ),
    (DeltaMergeBuilder, "whenNotMatchedBySourceDelete", "condition"): lambda t, c: t.whenNotMatchedBySourceDelete(c),
}
OPTIONAL = {"delete", "update", "scan", "toArrow", "explain", "nearest", "nearestDF", "erasureStatus", "overwrite"}


class _Untouched(DeltaHandle):
    """A table that fails where anything of it is read."""

    def newest(self) -> Any:
        raise AssertionError("read before the condition was looked at")


class _UntouchedIceberg(IcebergHandle):
    """The same of the other format: nothing of it is there to be read."""

    def newest(self) -> Any:
        raise AssertionError("read before the condition was looked at")


def _verbs() -> Iterator[tuple[type, str, str]]:
    for kind in (DeltaTable, IcebergTable, Plans, Transaction, DeltaOptimizeBuilder, DeltaMergeBuilder):
        for name, verb in inspect.getmembers(kind, callable):
            if not name.startswith("_"):
                yield from ((kind, name, p) for p in inspect.signature(verb).parameters if p in TAKING)


def test_every_verb_that_takes_a_condition_is_looked_at() -> None:
    ours = {(DeltaTable if kind is IcebergTable else kind, name, argument) for kind, name, argument in _verbs()}
    assert ours <= CALLS.keys()


@pytest.mark.parametrize("call", CALLS, ids=lambda c: f"{c[0].__name__}.{c[1]}({c[2]}=)")
def test_what_is_no_condition_is_refused_before_anything_is_read(call: tuple[type, str, str]) -> None:
    kind, name, _ = call
    held = table()
    untouched = DeltaTable(_Untouched(None, held.handle.state))
    subjects: dict[type, Any] = {
        DeltaTable: untouched,
        Plans: untouched.plan,
        DeltaOptimizeBuilder: held.optimize(),
        DeltaMergeBuilder: held.merge(ROWS, "id = 1"),
    }
    wrong = [*WRONG, *([] if name in OPTIONAL or name.startswith("when") else [None])]
    for given in wrong:
        if kind is Transaction:
            with held.transaction() as subject, pytest.raises(TypeError, match=type(given).__name__):
                CALLS[call](subject, given)
        elif (name, given) == ("erase", None):
            with pytest.raises(Invalid, match="erase needs a condition"):
                untouched.erase(None)  # type: ignore[arg-type]
        else:
            with pytest.raises(TypeError, match=f"SQL text.* not {type(given).__name__}"):
                CALLS[call](subjects[kind], given)
    assert held.toArrow().num_rows == 3
    assert held.handle.newest().snapshot.version == 1


def test_an_iceberg_table_refuses_the_same() -> None:
    bare = IcebergTable(_UntouchedIceberg(None, None, None))  # type: ignore[arg-type]
    ours = [(name, call) for (kind, name, p), call in CALLS.items() if kind is DeltaTable and p != "replaceOn"]
    asked = [(name, call) for name, call in ours if (IcebergTable, name) in {v[:2] for v in _verbs()}]
    assert {"delete", "update", "merge", "overwrite", "scan"} <= {name for name, _ in asked}
    for (_, call), given in itertools.product(asked, WRONG):
        with pytest.raises(TypeError, match="takes a condition"):
            call(bare, given)


def test_text_and_both_kinds_of_columns_pass() -> None:
    named = ConnectColumn(ColumnReference("id"))
    assert isinstance(stated(named == 5, "delete()"), Column)
    assert stated_in_text(named == 5, "replaceWhere") == "(id = 5)"
    assert stated("id = 5", "delete()") == "id = 5"
    assert stated_or_none(None, "delete()") is None
    for empty in ("", " \n"):
        with pytest.raises(Invalid, match="empty"):
            stated(empty, "delete()")
    with pytest.raises(Invalid, match="as text"):
        stated_in_text(named == "a\\b", "replaceWhere")
    with pytest.raises(NotACondition) as refused:
        stated("x" == "y", "delete()")
    assert refused.value.given == "bool"
    assert "F.col" in str(refused.value)


def test_a_delete_without_a_condition_still_takes_every_row() -> None:
    held = table()
    held.delete()
    assert held.toArrow().num_rows == 0


def test_values_are_numbers_texts_and_none() -> None:
    held = table(2)
    held.update("id = 0", {"v": None, "id": 7})
    held.update("id = 1", {"v": "'x'"})
    assert held.toArrow().sort_by("id").to_pylist() == [{"id": 1, "v": "x"}, {"id": 7, "v": None}]
    for wrong in ([1], b"x", object(), np.int64(3)):
        with pytest.raises(TypeError, match="takes values as SQL text"):
            held.update("id = 1", {"v": wrong})
        with pytest.raises(TypeError, match="takes values as SQL text"):
            held.merge(ROWS, "id = 1").whenMatchedUpdate(set={"v": wrong})
    with pytest.raises(TypeError, match="names columns by text"):
        held.update("id = 1", {5: "1"})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="as a dict"):
        held.update("id = 1", "v = 1")  # type: ignore[arg-type]


def test_a_number_that_is_none_is_no_name_of_a_column() -> None:
    stated = stated_sets({"a": float("nan"), "b": float("-inf"), "c": 2.5, "d": True}, "update()")
    assert stated == {"a": "CAST('nan' AS DOUBLE)", "b": "CAST('-inf' AS DOUBLE)", "c": "2.5", "d": "true"}
