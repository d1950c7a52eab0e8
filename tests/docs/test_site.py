"""The site builds strictly, has every page and every public name, and asks nothing of a network."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from tests.docs.pages import ROOT

_FETCHED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["'](https?:)?//|<link[^>]*rel=["']stylesheet["'][^>]*href=["'](https?:)?//"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: a warning fails it."""
    there = tmp_path_factory.mktemp("site")
    ended = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(there)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    warnings = [line for line in ended.stderr.splitlines() if not line.startswith("INFO")]
    assert ended.returncode == 0, "\n".join(warnings)
    return there


def test_every_page_is_there(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    examples = {Path("examples", path.name).with_suffix(".html") for path in (ROOT / "examples").glob("*.py")}
    outside = {Path(name) for name in ("contributing.html", "changelog.html", "benchmarks.html", "examples.html")}
    assert {page for page in pages | examples | outside if not (site / page).is_file()} == set()


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    told = "".join(path.read_text() for path in (site / "reference").glob("*.html"))
    assert [name for name in holdfast.__all__ if f'.{name}"' not in told] == []
    verbs = [name for name in vars(holdfast.DeltaTable) if not name.startswith("_")]
    assert [name for name in verbs if f'DeltaTable.{name}"' not in told] == []


def test_inherited_verbs_are_in_the_reference(site: Path) -> None:
    told = (site / "reference" / "delta-table.html").read_text()
    assert [
        verb
        for verb in ("merge", "vacuum", "erase", "changes", "take", "nearest", "check")
        if f"DeltaTable.{verb}" not in told
    ] == []


@pytest.mark.parametrize("table", [holdfast.DeltaTable, holdfast.IcebergTable])
def test_every_verb_says_what_it_does(table: type) -> None:
    members = {name: inspect.getattr_static(table, name) for name in dir(table) if not name.startswith("_")}
    asked = {name: getattr(member, "__func__", member) for name, member in members.items()}
    assert [name for name, member in asked.items() if not inspect.getdoc(member)] == []


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetching = {str(page.relative_to(site)) for page in site.rglob("*.html") if _FETCHED.search(page.read_text())}
    assert fetching == set()


def test_the_search_knows_the_pages(site: Path) -> None:
    known = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    assert {entry["location"].split("#")[0] for entry in known} >= {"quick-start.html", "reference/delta-table.html"}


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "images" / "concepts").glob("*.svg")), ids=lambda p: p.stem)
def test_a_picture_is_used_and_can_be_read_aloud(picture: Path) -> None:
    text = picture.read_text()
    assert "<title" in text
    assert "<desc" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    pages = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    assert f"images/concepts/{picture.name}" in pages
