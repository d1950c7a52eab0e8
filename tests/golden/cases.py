"""Tables written by other engines, and what each must read as, whoever reads it.

A check takes a case and a way to read; it knows no engine. `Read` gives a table at a version, with the asked columns
and metadata columns; `Describe` gives what the log alone says.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.errors import TableError, Unsupported
from tests.support.compare import assert_same_rows, describe_difference
from tests.support.golden import GOLDEN, require_golden


class Read(Protocol):
    """Read a table."""

    def __call__(
        self,
        path: Path,
        /,
        *,
        version: int | None = None,
        columns: Sequence[str] | None = None,
        metadata: Sequence[str] = (),
    ) -> pa.Table: ...


@dataclass(frozen=True)
class Case:
    """A golden table."""

    id: str
    root: Path
    says: Mapping[str, Any]

    @property
    def status(self) -> str:
        return str(self.says["status"])

    @property
    def table(self) -> Path:
        return self.root / "table"

    @property
    def readable(self) -> bool:
        return self.status in ("readable", "readable-after-prep")


@dataclass(frozen=True)
class Described:
    """What a log says of a table's newest version; `rows` is None where it does not give counts."""

    version: int
    columns: tuple[str, ...]
    partition_columns: tuple[str, ...]
    files: int
    dv_files: int
    dv_rows: int
    rows: int | None


# Where a case contradicts its own table, with what the table's bytes say.
CORRECTED_ROWS: Mapping[str, list[dict[str, Any]]] = {
    # The exported content is all null, in columns declared not null whose statistics count no nulls. The file carries
    # the field ids 1 and 2, and the table resolves by id.
    "duckdb-delta__column_mapping_id_mode_logical_names": [{"a": 1, "b": "alice"}, {"a": 2, "b": "bob"}],
}
# The file was added as `/some/path` and removed as `file:/some/path` (or the other way round), which is one file.
CORRECTED_FILES: Mapping[str, int] = {
    f"delta-kernel-rs__canonicalized-paths-{name}": 0 for name in ("normal-a", "normal-b", "special-a", "special-b")
}


@cache
def cases(kind: str = "delta") -> tuple[Case, ...]:
    """Every golden table of a format, in order; none when there are no golden tables."""
    if GOLDEN is None:
        return ()
    folders = sorted(p for p in (GOLDEN / kind).iterdir() if p.is_dir())
    return tuple(Case(p.name, p, json.loads((p / "case.json").read_text())) for p in folders)


def each(wanted: Sequence[Case]) -> pytest.MarkDecorator:
    """One test per case; without golden tables, one test that says so."""
    if GOLDEN is None:
        return pytest.mark.parametrize("case", [None], ids=["no-golden-tables"])
    return pytest.mark.parametrize("case", wanted, ids=[case.id for case in wanted])


def of_status(*statuses: str) -> list[Case]:
    return [case for case in cases() if case.status in statuses]


def prepared(case: Case | None, scratch: Path) -> tuple[Case, Path]:
    """The case and where to read it: in place, or a copy where it must be changed first."""
    if case is None:
        require_golden()
    assert case is not None, "without golden tables the test has been skipped by now"
    if case.status != "readable-after-prep":
        return case, case.table
    copy = scratch / "table"
    shutil.copytree(case.table, copy)
    prefix = "test%dv%prefix-"
    assert prefix in case.says["prep"], f"{case.id} asks for a preparation this test does not know"
    for file in copy.rglob(f"{prefix}*"):
        file.rename(file.with_name(file.name.removeprefix(prefix)))
    return case, copy


def check_content(case: Case, path: Path, read: Read) -> None:
    """Rows are what the case says: content where it is known, else their number."""
    contents = expected_contents(case)
    got = {version: read(path, version=version) for version in {None, *contents}}
    for version, expected in contents.items():
        assert_same_rows(got[version], expected)
    assert got[None].num_rows == case.says["expected_rows"]


def check_counts(case: Case, path: Path, read: Read) -> None:
    """Every version that can be read has its number of rows."""
    counts = {int(version): count for version, count in case.says["expected_rows_by_version"].items()}
    got = {version: read(path, version=version, columns=()).num_rows for version in counts}
    assert got == counts


def check_row_ids(case: Case, path: Path, read: Read) -> None:
    """Rows, ids and versions are those the case lists."""
    listed = case.says["expected_row_ids"]
    got = read(path, metadata=["_row_id", "_row_commit_version"])
    expected = [
        {**entry["row"], "_row_id": entry["row_id"], "_row_commit_version": entry["row_commit_version"]}
        for entry in listed
    ]
    assert_same_rows(got, pa.Table.from_pylist(expected, schema=got.schema))


def check_refused(path: Path, read: Read) -> None:
    """Reading raises one of our own errors."""
    with pytest.raises(TableError) as caught:
        read(path)
    assert len(str(caught.value)) > 20, "an error says what is wrong and where"


def check_needs_catalog(path: Path, read: Read) -> None:
    """Reading is refused by the feature's name."""
    with pytest.raises(Unsupported, match=r"catalogOwned|catalogManaged") as caught:
        read(path)
    assert any(name.startswith("catalog") for name in caught.value.features)


def check_gap(case: Case, path: Path, read: Read) -> None:
    """What the reference readers cannot read is either right or refused."""
    with suppress(TableError):
        assert read(path).num_rows == case.says["expected_rows"]


def check_log(case: Case, described: Described) -> None:
    """The log alone gives version, schema, files and counts."""
    says = case.says
    assert described.version == says["version"]
    assert list(described.columns)[:40] == says["columns"]
    assert list(described.partition_columns) == says["partition_columns"]
    assert (described.files, described.dv_files, described.dv_rows) == (
        CORRECTED_FILES.get(case.id, says["active_files"]),
        says["dv_files"],
        says["dv_rows"],
    )
    if described.rows is not None and says.get("expected_rows") is not None:
        assert described.rows == says["expected_rows"]


def expected_contents(case: Case) -> dict[int | None, pa.Table]:
    """Known content by version; None is the latest."""
    root = case.root / "expected"
    if case.id in CORRECTED_ROWS:
        return {None: _corrected(_content(root), CORRECTED_ROWS[case.id])}
    if not root.is_dir():
        return {}
    folders = [p for p in root.iterdir() if p.is_dir() and not p.name.startswith((".", "_"))]
    if not folders:
        return {None: _content(root)}
    return {None if p.name == "latest" else int(p.name.removeprefix("v")): _content(p) for p in folders}


def _corrected(exported: pa.Table, rows: list[dict[str, Any]]) -> pa.Table:
    right = pa.Table.from_pylist(rows, schema=exported.schema)
    assert describe_difference(exported, right), "the case says by itself what is right: correct it no longer"
    return right


def _content(folder: Path) -> pa.Table:
    files = sorted(p for p in folder.rglob("*.parquet") if not p.name.startswith((".", "_")))
    assert files, f"{folder} has expected content"
    return pa.concat_tables([_expected_file(p) for p in files], promote_options="permissive")


def _expected_file(path: Path) -> pa.Table:
    """A file of expected content; Spark's 96-bit timestamps are instants, though Arrow gives them no zone."""
    file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    table = file.read()
    leaves = [file.schema.column(i) for i in range(len(file.schema))]
    instants = {leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
    fields = [pa.field(f.name, _zoned(f.type) if f.name in instants else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))


def _zoned(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.timestamp(type_.unit, "UTC")
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _zoned(f.type)) for f in type_.fields])
    if pa.types.is_map(type_):
        return pa.map_(_zoned(type_.key_type), _zoned(type_.item_type))
    return pa.list_(_zoned(type_.value_type)) if pa.types.is_list(type_) else type_
