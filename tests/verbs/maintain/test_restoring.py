"""Restore: the whole of what a table was, and the numbers it has handed out since."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import DeltaTable
from holdfast.env import system
from holdfast.errors import Invalid
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.metadata import high_water_of
from holdfast.formats.delta.protocol.features import table_features
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.finding import FindingKind
from holdfast.model.mutation import Mutation
from holdfast.schema.identity import HIGH_WATER
from holdfast.schema.properties import COLUMN_MAPPING_MAX_ID
from holdfast.storage.open import open_location
from holdfast.verbs.define.alter import commit_shape
from holdfast.verbs.define.builder import IdentityGenerator
from tests.support.depth import examples

_fresh = count()
IDS = ["_row_id", "_row_commit_version"]
COLUMNS = ("a", "b", "c", "renamed")


def made(**properties: str) -> DeltaTable:
    builder = DeltaTable.create(None).location(f"memory://restoring/{next(_fresh)}")
    builder = builder.addColumn("n", "bigint", generatedByDefaultAs=IdentityGenerator())
    builder = builder.addColumn("a", "bigint").addColumn("b", "string", nullable=False)
    for name, value in {"delta.columnMapping.mode": "name", **properties}.items():
        builder = builder.property(name, value)
    return builder.execute()


def rows(table: DeltaTable) -> pa.Table:
    return pa.table({"b": ["x", "y"]}, pa.schema([pa.field("b", pa.string(), nullable=False)]))


def state_of(table: DeltaTable) -> DeltaState:
    return load(open_location(table.handle.newest().snapshot.location.url))


Step = Callable[[DeltaTable], Any]
STEPS: dict[str, Step] = {
    "append": lambda t: t.append(rows(t)),
    "delete": lambda t: t.delete("n = 2"),
    "add": lambda t: t.addColumns({"c": "int"}),
    "drop a": lambda t: t.dropColumn("a"),
    "drop c": lambda t: t.dropColumn("c"),
    "rename a": lambda t: t.renameColumn("a", "renamed"),
    "rename n": lambda t: t.renameColumn("n", "m"),
    "cluster": lambda t: t.clusterBy("a"),
    "cluster by c": lambda t: t.clusterBy("c", "b"),
    "cluster by none": lambda t: t.clusterBy(),
    "constrain": lambda t: t.addConstraint("positive", "a > 0"),
    "loosen": lambda t: t.dropConstraint("positive"),
    "property": lambda t: t.setProperties({"x": "y", "delta.appendOnly": "false"}),
    "unset": lambda t: t.unsetProperties(["x"]),
    "feed": lambda t: t.setProperties({"delta.enableChangeDataFeed": "true"}),
    "times": lambda t: t.setProperties({"delta.enableInCommitTimestamps": "true"}),
    "comment": lambda t: t.commentColumn("b", "what"),
    "describe": lambda t: t.setProperties({"comment": "for people"}),
    "default": lambda t: t.setColumnDefault("a", "7"),
    "widen": lambda t: t.setProperties({"delta.enableTypeWidening": "true"}),
    "drop widening": lambda t: t.dropFeatureSupport("typeWidening"),
    "drop constraints": lambda t: t.dropFeatureSupport("checkConstraints"),
}


def shape_of(state: DeltaState) -> dict[str, Any]:
    """What a restore brings back, without the numbers that only rise."""
    shape = DeltaFormat.definition_of(state)
    fields = [
        (f.name, f.type, f.nullable, {k: v for k, v in f.metadata.items() if k != HIGH_WATER})
        for f in shape.schema.fields
    ]
    since = ("delta.inCommitTimestampEnablement", COLUMN_MAPPING_MAX_ID, "delta.requireCheckpointProtection")
    properties = {k: v for k, v in shape.properties.items() if not k.startswith(since)}
    return {
        "columns": fields,
        "properties": properties,
        "clustering": shape.clustering_columns or (),
        "partitions": shape.partition_columns,
        "told": (shape.name, shape.description),
    }


def marks(state: DeltaState) -> dict[str, int]:
    """Every number of a table that only rises."""
    found = {"ids": high_water_of(state.domains, where="here")}
    found |= {f.physical_name: int(f.metadata.get(HIGH_WATER, 0)) for f in state.snapshot.schema.fields}
    return found | {"columns": int(state.metadata.properties[COLUMN_MAPPING_MAX_ID])}


@examples(30)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=9), st.data())
def test_a_restored_table_is_what_it_was(story: list[str], data: st.DataObject) -> None:
    table = made()
    table.append(rows(table))
    for step in story:
        try:
            STEPS[step](table)
        except Invalid:
            continue  # what such a table cannot become
    version = data.draw(st.integers(0, table.version), label="version")
    before, then = state_of(table), load(open_location(table.handle.newest().snapshot.location.url), version=version)
    expected = table.toArrow(version=version, metadata=IDS) if then.snapshot.identity else None
    table.restoreToVersion(version)
    after = state_of(table)
    assert shape_of(after) == shape_of(then)
    assert set(table_features(after.protocol)) >= set(table_features(before.protocol))
    risen = marks(after)
    for name, mark in marks(before).items():
        assert risen.get(name, mark) >= mark
    if expected is not None:
        assert table.toArrow(metadata=IDS).sort_by("_row_id") == expected.sort_by("_row_id")
    assert table.restoreToVersion(version).version is None, "it is that already"
    report = table.check()
    assert report.clean, str(report)
    table.append(rows(table), mergeSchema=True)
    table.optimize().executeCompaction()
    numbers = table.toArrow(columns=["n" if "n" in after.snapshot.schema.names else "m"]).column(0).to_pylist()
    assert len(set(numbers)) == len(numbers), "no number is handed out again"


def test_clustering_goes_where_there_was_none() -> None:
    table = made()
    table.append(rows(table))
    before = table.version
    table.addColumns({"c": "int"})
    table.clusterBy("c")
    table.restoreToVersion(before)
    assert state_of(table).snapshot.clustering_columns == ()
    table.append(rows(table))
    table.optimize().executeCompaction()
    table.purge()
    table.restoreToVersion(before + 2)
    assert state_of(table).snapshot.clustering_columns == ((state_of(table).snapshot.schema.fields[-1].physical_name,),)


def test_a_check_finds_a_clustering_column_that_is_gone() -> None:
    table = made()
    state = table.handle.newest()
    shape = DeltaFormat.definition_of(state).__class__(
        schema=state.snapshot.schema, properties=state.snapshot.properties, clustering_columns=(("nobody",),)
    )
    commit_shape(state, Mutation("CLUSTER BY", shape=shape), system())
    (finding,) = [f for f in table.check().findings if not f.kind.is_harmless]
    assert (finding.kind, "clustered by nobody" in finding.what) == (FindingKind.LOST_CLUSTERING, True)


def test_a_number_column_that_was_renamed_keeps_its_mark() -> None:
    table = made()
    table.append(rows(table))
    table.renameColumn("n", "m")
    table.append(rows(table))
    table.restoreToVersion(1)
    table.append(rows(table))
    assert table.toArrow(columns=["n"]).column(0).to_pylist() == [1, 2, 5, 6]


@pytest.mark.everywhere
def test_an_unclustered_version_comes_back_with_spark(spark: Any, tmp_path: Any) -> None:
    frame = spark.range(4).selectExpr("id", "id AS c")
    table = DeltaTable.create(spark).location(tmp_path / "t").addColumns(frame.select("id").schema).execute()
    table.append(frame.select("id"))
    table.append(frame, mergeSchema=True)
    table.clusterBy("c")
    table.restoreToVersion(1)
    table.append(frame.select("id"))
    assert len(table.optimize().executeCompaction().versions) == 1
    assert (table.toDF().count(), table.check().clean) == (8, True)
