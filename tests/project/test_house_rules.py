"""Rules of the house that no linter holds: sizes, words, imports, what must be there and what must not."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])
MOST_LINES = 450
FACADES = ("table/delta.py", "table/table.py")  # lists of documented one-liners, which no reader gains by splitting

by_path = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@by_path
def test_a_file_stays_small(path: Path) -> None:
    if not str(path).endswith(FACADES):
        assert len(path.read_text().splitlines()) <= MOST_LINES


@by_path
def test_nothing_reaches_for_the_jvm_or_for_pandas(path: Path) -> None:
    forbidden = r"\b(?:_jvm|_jdf|_jsparkSession|sparkContext|_sc|toPandas)\b|^\s*(?:import|from)\s+pandas\b"
    assert re.findall(forbidden, path.read_text(), re.MULTILINE) == []


# An import inside a function is for what is to load only when it is needed; import-linter sees it all the same.
DEFERRING = {
    "_dropin/streams.py": "a user's function travels to a process of Spark's and turns the drop-in on there",
    "cli/command.py": "conditions load a SQL parser, which most commands do not need",
    "cli/commands/files.py": "only an explained condition loads the local engine, and a SQL parser with it",
    "cli/commands/history.py": "PyIceberg is an extra",
    "cli/rows.py": "conditions load a SQL parser, which most commands do not need",
    "cli/target.py": "PyIceberg is an extra",
    "cli/tour/command.py": "the help of the tour loads no PySpark",
    "cli/tour/steps.py": "PyIceberg is an extra, without which the tour leaves a step out",
    "schema/constraints.py": "only a constraint loads a SQL parser; a log is read without one",
    "verbs/open/engine.py": "chooses the engine: a table without a session works without PySpark",
    "verbs/open/spark_values.py": "text as a condition or type needs no PySpark",
    "verbs/stream/source.py": "the data source travels to processes of Spark's, and imports what does the work there",
    "verbs/stream/streams.py": "only a stream needs the data source, which is a class of PySpark's",
}
ON_SPARK = re.compile(
    r"engines/spark/|_dropin/|sql/|verbs/stream/(batches|reader|sink|source)\.py|cli/(doctor/probe|tour/session)\.py"
)


@by_path
def test_imports_stand_at_the_top(path: Path) -> None:
    if str(path.relative_to(ROOT / "src" / "holdfast")) in DEFERRING:
        return
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    deferred = [node.lineno for f in functions for node in ast.walk(f) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert deferred == []


@by_path
def test_only_what_runs_on_spark_loads_pyspark(path: Path) -> None:
    """Imports for type checking stand below an `if`, so they are none of these."""
    if ON_SPARK.match(str(path.relative_to(ROOT / "src" / "holdfast"))):
        return
    tree = ast.parse(path.read_text())
    names = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert [name for name in names if name.split(".")[0] == "pyspark"] == []


@by_path
def test_names_imported_for_types_are_used_in_annotations_alone(path: Path) -> None:
    tree = ast.parse(path.read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [each for node in blocks for each in node.body if isinstance(each, ast.Import | ast.ImportFrom)]
    names = {alias.asname or alias.name.split(".")[0] for each in imports for alias in each.names}
    deferred = [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node not in (*imports, *tree.body)
    ]
    names -= {alias.asname or alias.name for node in deferred for alias in node.names}
    annotations: set[int] = set()
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            if (annotation := getattr(node, field, None)) is not None:
                annotations |= {id(each) for each in ast.walk(annotation)}
    loads = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names]
    assert [(node.id, node.lineno) for node in loads if id(node) not in annotations] == []


@by_path
def test_a_module_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert not text or ast.get_docstring(ast.parse(text))


def test_the_lock_has_hashes_and_names_no_host() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert re.findall(r"://|index-url|find-links|trusted-host|^-", lock, flags=re.MULTILINE) == []
    pinned = re.findall(r"^[a-z0-9][\w.-]*==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", lock, flags=re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[a-z0-9]", lock, flags=re.MULTILINE)) > 10


def test_the_lock_covers_the_declared_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *extras["dev"], *extras["connect"]]
    names = {re.split(r"[^\w-]", each, maxsplit=1)[0] for each in declared}
    locked = set(re.findall(r"^([a-z0-9][\w.-]*)==", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE))
    assert names - locked == set()


def test_the_project_file_names_no_host() -> None:
    assert re.findall(r"://|index-url|find-links", (ROOT / "pyproject.toml").read_text()) == []


@pytest.mark.parametrize("name", [".ci/run", "scripts/browser.sh", "scripts/java.sh", "scripts/python.sh"])
def test_scripts_can_be_run(name: str) -> None:
    script = ROOT / name
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in script.read_text()
    assert os.access(script, os.X_OK)


def test_the_licence_is_there() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text


@by_page
def test_pages_name_no_place_on_one_machine(page: Path) -> None:
    assert re.findall(r"/(?:work|home|root|Users|opt|srv)/\S*|\.\./shared|[A-Z]:\\", page.read_text()) == []


@by_page
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page != "index.md" and f"]({page})" not in index] == []
