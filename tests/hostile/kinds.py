"""The kinds of files of both formats, and what may come of one whose bytes were changed.

A changed file gives the right answer, an error of the tree, or a failure. How far an answer may differ depends on what
else in the table says what the file must hold:

- SAME: the file is a hint or a witness, and the table reads as before, without an error.
- STRICT: something says how long it is and what its checksum is. The answer is the same, or an error.
- COUNT: something says how many rows or files it holds. The answer has as many rows, or it is an error; a changed byte
  within a value is nowhere told of.
- ANY: nothing else speaks of what it holds. The answer may be another one.

Whatever is asked, no other exception leaves the library, and time and memory are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.hostile import tables
from tests.hostile.tables import Question


class Rule(Enum):
    """What an answer may be."""

    SAME = "same"
    STRICT = "same or an error"
    COUNT = "as many rows or an error"
    ANY = "any or an error"


@dataclass(frozen=True)
class Kind:
    """Files that are alike: how a table with some is made, where they are, and what is asked of it."""

    make: Callable[[Path], None]
    pattern: str
    shape: str
    bytes_rule: Rule  # for changes of bytes
    meaning_rule: Rule  # for changes of values, rows and columns
    questions: Mapping[str, Question]  # answers that the rules are for
    others: Mapping[str, Question]  # answers that may be any


_LOG = "t/_delta_log"
_PART = "[0-9a-f]" * 8 + "*.parquet"


def _delta(make: Callable[[Path], None], pattern: str, shape: str, rule: Rule, meaning: Rule | None = None) -> Kind:
    # How many rows a condition is true of, values say.
    asked = {name: question for name, question in tables.ROWS.items() if rule is not Rule.COUNT or name != "where"}
    return Kind(make, pattern, shape, rule, meaning or rule, asked, {**tables.ROWS, **tables.HISTORY})


def _own(pattern: str, shape: str, rule: Rule, asked: Mapping[str, Question], meaning: Rule | None = None) -> Kind:
    others = {**tables.OWN_ROWS, **tables.CHANGES, **tables.INDEXED}
    return Kind(
        tables.own_table, pattern, shape, rule, meaning or rule, asked,
        others,
    )  # fmt: skip


def _ice(version: int, pattern: str, shape: str, rule: Rule, meaning: Rule | None = None) -> Kind:
    others = {**tables.ICE_HISTORY, **(tables.ICE_IDS if version >= 3 else {})}
    asked = {name: question for name, question in tables.ICE_ROWS.items() if rule is not Rule.COUNT or name != "where"}
    return Kind(tables.ice_table(version), pattern, shape, rule, meaning or rule, asked, {**tables.ICE_ROWS, **others})


KINDS: Mapping[str, Kind] = {
    "delta commit": _delta(tables.smith_table, f"{_LOG}/*.json", "lines", Rule.ANY),
    "delta commit of ours": _own(f"{_LOG}/*.json", "lines", Rule.ANY, tables.OWN_ROWS),
    "delta checksum": _delta(tables.smith_table, f"{_LOG}/*.crc", "json", Rule.SAME),
    "delta hint": _delta(tables.checkpointed("classic"), f"{_LOG}/_last_checkpoint", "json", Rule.SAME),
    "delta checkpoint": _delta(tables.checkpointed("classic"), f"{_LOG}/*.checkpoint.parquet", "parquet", Rule.COUNT),
    "delta checkpoint in parts": _delta(
        tables.checkpointed("multipart"), f"{_LOG}/*.checkpoint.*.parquet", "parquet", Rule.COUNT
    ),
    "delta checkpoint v2": _delta(
        tables.checkpointed("v2-parquet"), f"{_LOG}/*.checkpoint.*.parquet", "parquet", Rule.COUNT
    ),
    "delta checkpoint v2 as JSON": _delta(
        tables.checkpointed("v2-json"), f"{_LOG}/*.checkpoint.*.json", "lines", Rule.ANY
    ),
    "delta sidecar": _delta(tables.checkpointed("v2-parquet"), f"{_LOG}/_sidecars/*", "parquet", Rule.COUNT),
    "delta compacted log": _delta(tables.compacted, f"{_LOG}/*.compacted.json", "lines", Rule.ANY),
    "delta vectors": _delta(tables.smith_table, "t/deletion_vector_*.bin", "bytes", Rule.STRICT),
    "delta data": _delta(tables.smith_table, "t/*.parquet", "parquet", Rule.COUNT),
    "delta data of ours": _own("t/*.parquet", "parquet", Rule.COUNT, tables.OWN_ROWS),
    "delta change feed": _own("t/_change_data/*", "parquet", Rule.SAME, tables.OWN_ROWS),
    "delta index": _own("t/_holdfast/**/*", "bytes", Rule.STRICT, {**tables.OWN_ROWS, **tables.INDEXED}),
    "iceberg metadata": _ice(3, "t/metadata/*.json", "json", Rule.ANY),
    "iceberg manifest list": _ice(2, "t/metadata/snap-*.avro", "bytes", Rule.ANY),
    "iceberg manifest": _ice(3, "t/metadata/m*.avro", "bytes", Rule.ANY),
    "iceberg position deletes": _ice(2, "t/data/d*.parquet", "parquet", Rule.ANY, Rule.STRICT),
    "iceberg equality deletes": _ice(2, "t/data/e*.parquet", "parquet", Rule.ANY, Rule.STRICT),
    "iceberg vectors": _ice(3, "t/data/*.puffin", "bytes", Rule.ANY),
    "iceberg data": _ice(3, "t/data/f*.parquet", "parquet", Rule.COUNT),
    "iceberg ORC": _ice(2, "t/data/*.orc", "bytes", Rule.COUNT),
}
