"""Makes text from a table safe for a terminal: control characters become visible signs.

1. Control characters (C0 except newline and tab, DEL, C1) and characters that change the direction of text each become
   one visible sign.
2. JSON keeps its meaning: such characters are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

_C0 = [code for code in range(0x20) if chr(code) not in "\n\t"]
_BEYOND = [0x7F, *range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF]
_SIGNS = {code: chr(0x2400 + code) for code in _C0} | dict.fromkeys(_BEYOND, "\N{REPLACEMENT CHARACTER}")
_ESCAPES = {code: f"\\u{code:04x}" for code in _BEYOND}


def visible(text: str) -> str:
    """A text that is safe to print on a terminal."""
    return text.translate(_SIGNS)


def json_line(encoded: bytes) -> str:
    """A JSON text of the same meaning that is safe to print on a terminal."""
    return encoded.decode().translate(_ESCAPES)


class Screen(Console):
    """A console that prints every text through `visible`."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


def screen(*, stderr: bool = False) -> Screen:
    """The console for output; data is never interpreted as markup."""
    return Screen(markup=False, highlight=False, emoji=False, stderr=stderr)
