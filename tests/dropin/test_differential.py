"""How differences from delta-spark are told; and, in short, what was found by them and is the same now.

`make interop` runs the programs on both engines.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from tests.dropin.differential.compare import EVERYWHERE, surprises
from tests.dropin.differential.program import Program, parse, programs

TEXT = """About nothing.

== one
SELECT 1

~ condition: it has no name
SELECT nope

~ @rows t rows:id: by chance
"""


def answer(rows: list[list[object]], *columns: str) -> dict[str, object]:
    return {"columns": list(columns), "types": ["int"] * len(columns), "nullable": [True] * len(columns), "rows": rows}


def test_a_program_is_steps_and_what_is_meant_to_differ() -> None:
    (found,) = parse(TEXT, "page")
    assert found == Program(
        "page: one",
        ("SELECT 1", "SELECT nope"),
        {"1": {"condition": "it has no name"}, "@rows t": {"rows:id": "by chance"}},
    )


def test_every_program_is_read_and_every_difference_has_a_reason() -> None:
    found = programs()
    assert len({each.name for each in found}) == len(found)
    assert sum(not step.startswith(">>>") for each in found for step in each.steps) >= 400
    assert sum(step.startswith(">>>") for each in found for step in each.steps) >= 200
    for each in found:
        assert all(why for by_name in each.meant.values() for why in by_name.values()), each.name
        assert all(step.startswith("@") or int(step) < len(each.steps) for step in each.meant), each.name
    assert all(EVERYWHERE.values())


def test_what_differs_is_told_by_name_and_what_no_longer_does_too() -> None:
    (program,) = parse(TEXT, "page")
    raised = {"raised": ["AnalysisException"], "condition": "A", "says": "a"}
    theirs = {"0": answer([[1, 2]], "a", "b"), "1": raised, "@rows t": answer([[1]], "id")}
    ours = {"0": answer([[1, 3]], "a", "b"), "1": raised | {"condition": "B"}, "@rows t": answer([[2]], "id")}
    assert [line.split("\n")[1].split(":")[:2] for line in surprises(program, theirs, ours)] == [["    rows", "b"]]
    same = surprises(program, theirs, theirs)
    assert [line.rsplit("\n    ")[1] for line in same] == [
        "condition: no longer differs (it has no name)",
        "rows:id: no longer differs (by chance)",
    ]
    assert surprises(program, theirs, ours | {"1": answer([], "x")})[1].startswith("SELECT nope\n    outcome")


def test_what_is_meant_everywhere_is_counted() -> None:
    told = [answer([[0, {"numFiles": n, "n": "1"}]], "version", "operationMetrics") for n in ("1", "2")]
    seen = set[str]()
    program = Program("p", ("x",))
    assert not surprises(program, {"0": told[0]}, {"0": told[1]}, seen)
    assert seen == {"rows:operationMetrics.numFiles"}


def test_statements_found_to_differ(enabled: SparkSession, tmp_path: Path) -> None:
    def rows(statement: str) -> list[tuple[object, ...]]:
        return sorted(map(tuple, enabled.sql(statement).collect()), key=repr)

    a, b = f"delta.`{tmp_path}/a`", f"delta.`{tmp_path}/b`"
    enabled.sql(f"CREATE TABLE {a} (id INT, d DATE, n INT) USING delta PARTITIONED BY (n)")
    enabled.sql(f"CREATE TABLE {b} (id BIGINT) USING delta")
    enabled.sql(f"FROM range(4) INSERT INTO {a} (id, n) SELECT id, id % 2 INSERT INTO {b} SELECT id WHERE id > 2")
    assert (len(rows(f"SELECT * FROM {a}")), rows(f"SELECT * FROM {b}")) == (4, [(3,)])
    assert rows(f"SHOW PARTITIONS {a}") == [(0,), (1,)]
    enabled.sql(f"UPDATE {a} SET d = '2024-05-01', id = '7' WHERE id = 1")
    enabled.sql(
        f"MERGE INTO {a} t USING (SELECT '2' AS id, '2025-01-01' AS d) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET d = s.d"
    )
    may, january = datetime.date(2024, 5, 1), datetime.date(2025, 1, 1)
    assert rows(f"SELECT id, d FROM {a} WHERE d IS NOT NULL") == [(2, january), (7, may)]
    for statement, condition, kind in (
        (f"UPDATE {a} SET n = 1, N = 2", "DELTA_CONFLICT_SET_COLUMN", AnalysisException),
        (f"INSERT INTO {a} (id, id) VALUES (1, 2)", "COLUMN_ALREADY_EXISTS", AnalysisException),
        (f"MERGE INTO {a} t USING {b} s ON t.id = s.id", "MERGE_WITHOUT_WHEN", ParseException),
        (f"DELETE FROM {a} WHERE id = 1 LIMIT", "PARSE_SYNTAX_ERROR", ParseException),
        (f"ALTER TABLE {a} ADD CONSTRAINT c CHECK (id + n > 100)", "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", None),
    ):
        with pytest.raises(kind or AnalysisException) as caught:
            enabled.sql(statement)
        assert caught.value.getCondition() == condition
    enabled.sql(f"ALTER TABLE {a} ADD CONSTRAINT c CHECK (id + n < 100)")
    enabled.sql("DECLARE OR REPLACE VARIABLE most INT")
    enabled.sql(f"SET VAR most = (SELECT max(id) FROM {a})")
    assert rows("SELECT most") == [(7,)]
    assert rows(f"EXECUTE IMMEDIATE 'SELECT id FROM {a} WHERE id > ?' USING most - 1") == [(7,)]
    enabled.sql("DROP TEMPORARY VARIABLE most")
    assert enabled.sql("SELECT max(id) FROM IDENTIFIER(:a)", {"a": a}).first() == (7,)
    enabled.sql(f"COMMENT ON TABLE {b} IS 'two'")
    assert enabled.sql(f"DESCRIBE DETAIL {b}").first().description == "two"
    with pytest.raises(PySparkException, match="for each of its statements"):
        enabled.sql(f"BEGIN INSERT INTO {b} VALUES (9); END")
    assert enabled.sql(f"CREATE TABLE delta.`{tmp_path}/c` SHALLOW CLONE {b}").first().source_num_of_files == 1
