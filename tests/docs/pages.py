"""Code in the documentation: fenced blocks of Python, each with the output that the page promises for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
ANYTHING = "…"

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """Python of a page; `output` is the text block that stands right below it, where one does."""

    page: str
    line: int
    code: str
    output: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    """The Python of a page, in order."""
    text = (ROOT / page).read_text()
    fences = list(_FENCE.finditer(text))
    below = {
        one.start(): other["body"]
        for one, other in pairwise(fences)
        if other["language"] == "text" and not text[one.end() : other.start()].strip()
    }
    return [
        Block(page, text.count("\n", 0, fence.start()) + 2, fence["body"], below.get(fence.start()))
        for fence in fences
        if fence["language"] == "python"
    ]


def as_promised(promised: str, printed: str) -> bool:
    """Whether output is what a page promises; `…` stands for anything within a line, spaces at ends do not count."""
    lines = [re.escape(line.rstrip()).replace(re.escape(ANYTHING), ".*") for line in promised.strip("\n").split("\n")]
    return (
        re.fullmatch("\n".join(lines), "\n".join(line.rstrip() for line in printed.strip("\n").split("\n"))) is not None
    )
