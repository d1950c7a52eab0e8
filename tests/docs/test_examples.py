"""Every example on these pages runs, and prints what the page says it prints.

A block may use what the first block of its page defines, and nothing else.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import holdfast
from tests.docs.pages import ANYTHING, ROOT, Block, as_promised, blocks
from tests.docs.warehouse import make_warehouse

RUN = (
    "README.md",
    "docs/quick-start.md",
    "docs/tables.md",
    "docs/scanning.md",
    "docs/lookup.md",
    "docs/indexes.md",
    "docs/vectors.md",
    "docs/writing.md",
    "docs/changing-rows.md",
    "docs/changes.md",
    "docs/streaming.md",
    "docs/drop-in.md",
    "docs/concurrency.md",
    "docs/maintenance.md",
    "docs/checking.md",
    "docs/clones.md",
    "docs/clustering.md",
    "docs/vacuum.md",
    "docs/erasure.md",
    "docs/errors.md",
    "docs/iceberg.md",
    "docs/iceberg-writing.md",
    "docs/publishing.md",
    "docs/migrating-from-delta-spark.md",
    "docs/sql.md",
    "docs/migrating-from-lance.md",
    "docs/operations.md",
)
FRAGMENTS = ("CONTRIBUTING.md", "docs/row-identity.md", "docs/storage.md")  # code to look at, with parts left out
BLOCKS = [block for page in RUN for block in blocks(page)]


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A place for each page, so that none depends on what another does to the tables."""

    @cache
    def home(page: str) -> Path:
        root = tmp_path_factory.mktemp("docs")
        make_warehouse(root)
        return root

    return home


@pytest.mark.in_order
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_an_example_runs_as_printed(
    block: Block, homes: Callable[[str], Path], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(homes(block.page))
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    names: dict[str, Any] = {}
    first = blocks(block.page)[0]
    try:
        if block != first:
            _printed(first, names)
        printed = _printed(block, names)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        holdfast.disable()  # a page may have turned the drop-in on
    if block.output is not None:
        assert as_promised(block.output, printed), f"{block} prints\n{printed}"
    else:
        assert not printed, f"{block} prints what its page does not show:\n{printed}"


@pytest.mark.parametrize("page", RUN)
def test_a_page_shows_something(page: str) -> None:
    assert any(block.output for block in blocks(page))


def test_no_page_with_code_is_forgotten() -> None:
    pages = [str(page.relative_to(ROOT)) for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))]
    assert {page for page in pages if blocks(page)} == {*RUN, *FRAGMENTS}


def test_output_is_compared_line_by_line() -> None:
    assert as_promised("a\nb …\n", "a \nb c d\n\n")
    assert not as_promised("a\n", "a\nb\n")
    assert not as_promised(f"a {ANYTHING}\n", "a b\nc\n")
    assert not as_promised("a.c\n", "abc\n")


def _printed(block: Block, names: dict[str, Any]) -> str:
    code = compile("\n" * (block.line - 1) + block.code, block.page, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as caught:
        exec(code, names)
    return caught.getvalue()
