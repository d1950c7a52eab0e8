"""Pages of the site that live outside of docs/: a hook of mkdocs, which mkdocs.yml names.

1. A file outside of docs/ is on the site if it stands in OUTSIDE or is an example; each has one address.
2. Links are written for people who read the files where they lie; on the site the same links lead to its pages.
3. A link that leads out of docs/ to something that is not on the site is left alone, and the strict build fails on it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = "docs"
OUTSIDE = {
    "README.md": "index.md",  # the same in other words
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "bench/README.md": "benchmarks.md",
    "examples/README.md": "examples.md",
}
_LINK = re.compile(r"(?P<text>\]\()(?P<target>[^)#\s:]+)(?P<rest>#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lives outside, with links as they are on the site."""
    for source, address in _pages().items():
        if address != "index.md":
            files.append(File.generated(config, address, content=_text(source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links of pages in docs/ to where the site has what they mean."""
    known = {address: source for source, address in _pages().items() if address != "index.md"}
    source = known.get(page.file.src_uri, f"{DOCS}/{page.file.src_uri}")
    return _LINK.sub(lambda link: _led(link, source, page.file.src_uri), markdown)


def _pages() -> dict[str, str]:
    """Files of the repository that are pages of the site, and their addresses there."""
    examples = sorted((ROOT / "examples").glob("*.py"))
    return {**OUTSIDE, **{f"examples/{path.name}": f"examples/{path.stem}.md" for path in examples}}


def _text(source: str) -> str:
    text = (ROOT / source).read_text()
    if not source.endswith(".py"):
        return text
    title = text.split('"""', 2)[1].split(":", 1)[0].split(",", 1)[0].strip()
    return f"# {title}\n\nThe whole of `{source}`. It is run by the tests as it stands.\n\n```python\n{text}```\n"


def _led(link: re.Match[str], source: str, address: str) -> str:
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link["target"]))
    there = _pages().get(target)
    if there is None and target.startswith(f"{DOCS}/"):
        there = target.removeprefix(f"{DOCS}/")
    if there is None:
        return link[0]
    here: Any = posixpath.dirname(address) or "."
    return f"{link['text']}{posixpath.relpath(there, here)}{link['rest'] or ''})"
