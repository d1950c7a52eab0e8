"""Builders: what they describe, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from pyspark.sql import types as spark

from holdfast.errors import Invalid, TableError, UnknownColumn, Unsupported
from holdfast.model.mutation import TableDefinition
from holdfast.schema.ddl import parse_type
from holdfast.schema.types import Field, Primitive, Struct
from holdfast.storage.location import Location
from holdfast.verbs.define.builder import CreateMode, DeltaTableBuilder, IdentityGenerator

Made: TypeAlias = tuple[Location, TableDefinition, CreateMode]
Builder: TypeAlias = DeltaTableBuilder[Made]


def builder(mode: CreateMode = CreateMode.CREATE) -> Builder:
    return DeltaTableBuilder(lambda location, shape, how: (location, shape, how), mode).location("/tables/t")


def shape(made: Builder) -> TableDefinition:
    return made.execute()[1]


def test_everything_at_once() -> None:
    made = (
        builder(CreateMode.CREATE_OR_REPLACE)
        .comment("what it is for")
        .addColumn("id", "BIGINT", nullable=False, generatedByDefaultAs=IdentityGenerator(5, 10), comment="number")
        .addColumn("at", spark.TimestampType())
        .addColumn("day", spark.DateType(), generatedAlwaysAs="cast(at as date)")
        .addColumns(spark.StructType([spark.StructField("s", spark.ArrayType(spark.LongType(), False), False)]))
        .addColumns([spark.StructField("c", spark.StringType(), True, {"comment": "hi"})])
        .partitionedBy("DAY")
        .property("delta.appendonly", "true")
        .property("delta.feature.deletionVectors", "supported")
        .property("delta.constraints.late", "at > '2020-01-01'")
    )
    location, got, mode = made.execute()
    assert (location.url, mode) == ("file:///tables/t", CreateMode.CREATE_OR_REPLACE)
    numbers = {"delta.identity.start": 5, "delta.identity.step": 10, "delta.identity.allowExplicitInsert": True}
    assert got.schema == Struct(
        (
            Field("id", Primitive("long"), False, {"comment": "number", **numbers}),
            Field("at", Primitive("timestamp")),
            Field("day", Primitive("date"), True, {"delta.generationExpression": "cast(at as date)"}),
            Field("s", got.schema.fields[3].type, False),
            Field("c", Primitive("string"), True, {"comment": "hi"}),
        )
    )
    assert got.partition_columns == ("day",)
    assert got.properties == {"delta.appendOnly": "true", "delta.constraints.late": "at > '2020-01-01'"}
    assert got.features == {"deletionVectors"}
    assert got.description == "what it is for"
    assert got.clustering_columns is None


def test_types_as_text_and_as_spark_types_are_the_same() -> None:
    text = "struct<a: array<map<string, decimal(5,2)>>, b: timestamp_ntz>"
    as_spark = spark.StructType(
        [
            spark.StructField("a", spark.ArrayType(spark.MapType(spark.StringType(), spark.DecimalType(5, 2)))),
            spark.StructField("b", spark.TimestampNTZType()),
        ]
    )
    got = shape(builder().addColumn("x", text).addColumn("y", as_spark)).schema
    assert got.fields[0].type == got.fields[1].type == parse_type(text)


def test_clustering_by_nested_columns() -> None:
    made = builder().addColumn("a", "int").addColumn("s", "struct<X: date>").addColumn("d.e", "int")
    got = shape(made.property("delta.columnMapping.mode", "name").clusterBy("A", "s.x", "d.e"))
    assert got.clustering_columns == (("a",), ("s", "X"), ("d.e",))
    assert shape(builder().addColumn("a", "int").clusterBy()).clustering_columns == ()


def test_always_generated_numbers_cannot_be_given() -> None:
    got = shape(builder().addColumn("n", "long", generatedAlwaysAs=IdentityGenerator()).addColumn("v", "int"))
    assert got.schema.fields[0].metadata["delta.identity.allowExplicitInsert"] is False


def test_a_name_is_a_path_for_now() -> None:
    created: Builder = DeltaTableBuilder(lambda location, shape, how: (location, shape, how), CreateMode.REPLACE)
    assert created.tableName("delta.`/a b/t`").addColumn("a", "int").execute()[0].directory == "a b/t"
    with pytest.raises(Unsupported, match=r"location\(path\)"):
        builder().tableName("db.t")
    with pytest.raises(Invalid, match="no place"):
        DeltaTableBuilder(lambda *wishes: wishes, CreateMode.CREATE).addColumn("a", "int").execute()


REFUSED: list[tuple[Callable[[Builder], Builder], type[TableError], str]] = [
    (lambda b: b, Invalid, "at least one column"),
    (lambda b: b.addColumn("a", "int").addColumn("A", "int"), Invalid, "more than one column a"),
    (lambda b: b.addColumn("a", "intt"), Invalid, "'intt' is no type"),
    (lambda b: b.addColumn("a b", "int"), Invalid, "delta.columnMapping.mode to name"),
    (lambda b: b.addColumn("a", "int").partitionedBy("b"), Invalid, "partitioned by b"),
    (lambda b: b.addColumn("a", "int").partitionedBy("a"), Invalid, "all its columns"),
    (lambda b: b.addColumn("a", "int").addColumn("b", "array<int>").partitionedBy(["b"]), Invalid, "array<integer>"),
    (lambda b: b.addColumn("a", "int").addColumn("b", "int").partitionedBy("a").clusterBy("b"), Invalid, "choose one"),
    (lambda b: b.addColumn("a", "int").clusterBy("b"), UnknownColumn, "no column b"),
    (lambda b: b.addColumn("a", "boolean").clusterBy("a"), Invalid, "because it is boolean"),
    (lambda b: b.addColumn("a", "int").clusterBy("a", "A"), Invalid, "twice"),
    (lambda b: b.addColumn("a", "int").property("delta.enableRowTraking", "true"), Invalid, "enableRowTracking"),
    (lambda b: b.addColumn("a", "int").property("delta.checkpointInterval", "x"), Invalid, "whole number"),
    (lambda b: b.addColumn("a", "int", generatedAlwaysAs=IdentityGenerator()), Invalid, "must be a bigint"),
    (lambda b: b.addColumn("g", "int", generatedAlwaysAs="nope + 1"), UnknownColumn, "names nope"),
    (lambda b: b.addColumn("g", "int", generatedAlwaysAs="G + 1"), Invalid, "generated too"),
    (lambda b: b.addColumn("a", "int").property("delta.constraints.c", "b > 1"), UnknownColumn, "constraint c"),
    (
        lambda b: (
            b.addColumn("n", "long", generatedAlwaysAs=IdentityGenerator()).addColumn("a", "int").partitionedBy("n")
        ),
        Invalid,
        "its numbers are its own",
    ),
    (
        lambda b: b.addColumn("n", "long", generatedAlwaysAs="1", generatedByDefaultAs=IdentityGenerator()),
        Invalid,
        "either always or by default",
    ),
    (
        lambda b: b.addColumns([spark.StructField("a", spark.LongType()), spark.StructField("A", spark.LongType())]),
        Invalid,
        "more than one column a",
    ),
]


@pytest.mark.parametrize(("wish", "error", "reason"), REFUSED, ids=[reason for *_, reason in REFUSED])
def test_refused(wish: Callable[[Builder], Builder], error: type[TableError], reason: str) -> None:
    with pytest.raises(error, match=reason):
        wish(builder()).execute()


def test_numbers_must_move() -> None:
    with pytest.raises(Invalid, match="other than 0"):
        IdentityGenerator(step=0)
