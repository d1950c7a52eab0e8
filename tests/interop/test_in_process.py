"""Tables of ours in the hands of delta-rs and DuckDB: a sample of what `make interop` asks of every engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop.answers import KnownBug, Refuses, Works
from tests.interop.changes import APPEND, OURS
from tests.interop.engines import DELTA_RS, DUCKDB, IN_PROCESS
from tests.interop.features import FEATURES, NAMES, Recipe, recipe, title
from tests.interop.pairs import covering
from tests.interop.rows import expected
from tests.interop.tables import build
from tests.interop.trials import FILTER, READ, filters, reads, trial

WITHOUT_SPARK = tuple(f.name for f in FEATURES if f.name != "spark" and "spark" not in f.needs)
TABLES = dict.fromkeys([recipe(), *map(recipe, WITHOUT_SPARK), *covering(set(WITHOUT_SPARK) - {"widened"})])


@pytest.mark.parametrize("made_of", TABLES, ids=title)
def test_others_read_what_we_write(made_of: Recipe, tmp_path: Path) -> None:
    build(made_of, tmp_path / "t")
    for engine in IN_PROCESS:
        answer = reads(engine, made_of, tmp_path / "t")
        if engine is DELTA_RS and "widened" in made_of:
            assert answer == Refuses(
                "External error: Transaction failed: Unsupported table features required: [TypeWidening]"
            )
        elif engine is DUCKDB and "partitioned" in made_of and made_of & {"mapping_name", "mapping_id"}:
            assert isinstance(answer, KnownBug), "DuckDB has mended it: forget the bug in trials.py"
        else:
            assert (answer, filters(engine, made_of, tmp_path / "t")) == (Works(), Works())


def test_others_read_what_spark_tasks_wrote(spark: SparkSession, tmp_path: Path) -> None:
    made_of = recipe("generated", "variant", "row_tracking")
    build(made_of, tmp_path / "t", spark)
    assert reads(DELTA_RS, made_of, tmp_path / "t") == Works()
    assert filters(DELTA_RS, made_of, tmp_path / "t") == Works()
    assert isinstance(reads(DUCKDB, made_of, tmp_path / "t"), Refuses)


def test_delta_rs_changes_a_table_and_we_go_on(tmp_path: Path) -> None:
    made_of = recipe("partitioned", "vectors", "all_types", "classic_checkpoint", "check")
    build(made_of, tmp_path / "t")
    asked = {READ, FILTER, *(change.name for change in DELTA_RS.offers), OURS.name}
    assert trial(DELTA_RS, made_of, tmp_path / "t", tmp_path, None) == dict.fromkeys(asked, Works())


def test_duckdb_appends_to_a_table_that_tracks_rows(tmp_path: Path) -> None:
    made_of = recipe("row_tracking", "vectors", "ntz")
    build(made_of, tmp_path / "t")
    asked = (READ, FILTER, APPEND.name, OURS.name)
    assert trial(DUCKDB, made_of, tmp_path / "t", tmp_path, None) == dict.fromkeys(asked, Works())


def test_wrong_rows_are_told(tmp_path: Path) -> None:
    """The witnesses can say no: a table with a row too many is wrong to each of them."""
    build(recipe(), tmp_path / "t")
    DELTA_RS.change(recipe(), tmp_path / "t", APPEND)
    for engine in IN_PROCESS:
        answer = reads(engine, recipe(), tmp_path / "t")
        assert "33 rows where 30 were expected" in getattr(answer, "text", "")
    assert expected(recipe()).num_rows == 30


def test_the_page_is_of_these_features() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    assert [f.title for f in FEATURES if f"| {f.title} |" not in page] == []
    assert len(FEATURES) == len(NAMES)
