"""The chart of one row's path through the files of its table, below the straight line of its id.

1. A file is a bar from the version that added it to the last version that has it, thicker with more rows. Bars of one
   lane do not touch: a lane is reused after it was free for a version.
2. The row is drawn in the bar of the file that holds it, from one event to the next.
3. The line of the id begins with the row and is straight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from holdfast.plan.changefeed.biography import Biography, Event
from holdfast.report.facts import FileLife, Life
from holdfast.report.svg import Figure, NumberTable, drawing, hint, tag, text
from holdfast.report.words import file_name, many, number

_WIDTH, _LEFT, _RIGHT = 1080.0, 96.0, 24.0
_ID_Y, _FILES_Y, _GAP = 70.0, 142.0, 7.0
_THINNEST, _THICKEST = 8.0, 34.0
_LABEL = 62.0  # width of the name of an event


@dataclass(frozen=True, slots=True)
class Bar:
    file: FileLife
    lane: int
    top: float
    height: float

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


def row_chart(life: Life, row: Biography, name: str) -> Figure:
    """The chart of a row that keeps its id while its files change."""
    placed = [e for e in row.events if e.file is not None and e.version is not None]
    bars = lay_out(life.files)
    column = (_WIDTH - _LEFT - _RIGHT) / len(life.versions)
    xs = {v.number: _LEFT + column * (at + 0.5) for at, v in enumerate(life.versions)}
    bottom = max(bar.top + bar.height for bar in bars.values()) + 22
    about = (
        f"{many(len(life.files), 'data file')} came and {sum(not f.is_live for f in life.files)} went in "
        f"{many(len(life.versions), 'version')}. Row {row.row_id} was in {len(placed)} of them, and kept its id."
    )
    parts = [
        *_grid(life, xs, column, bottom),
        *(_bar(bar, xs, column) for bar in bars.values()),
        *_places(placed, bars, xs, column),
        *_identity(placed, row, xs, column),
        text(0, _ID_Y + 4, f"row {row.row_id}", class_="row strong"),
        text(0, _ID_Y + 24, "file : position", class_="tiny muted"),
        text(0, _FILES_Y + 14, "files", class_="strong"),
        text(0, _FILES_Y + 30, "and the row in them", class_="tiny muted"),
    ]
    return Figure(
        "way",
        f"Where {name} lived",
        "Each bar is a data file, from the version that wrote it to the last that has it; thick bars hold many rows. "
        "The line that winds through them is where the row was. The straight one above is its id.",
        about,
        drawing("way", f"Where {name} lived", about, _WIDTH, bottom + 96, *parts),
        NumberTable(
            ("version", "operation", "the row", "file", "position", "row id"),
            tuple(
                (
                    f"{e.version}",
                    e.operation or "",
                    e.what.value,
                    file_name(e.file or ""),
                    f"{e.position}",
                    f"{row.row_id}",
                )
                for e in placed
            ),
        ),
    )


def lay_out(files: Sequence[FileLife]) -> Mapping[str, Bar]:
    """A bar for each file, in the first free lane."""
    most = max(file.rows for file in files)
    ends: list[int] = []  # the last version of each lane's last bar
    lanes = {}
    for file in sorted(files, key=lambda f: (f.first, -f.rows)):
        free = next((at for at, end in enumerate(ends) if end + 1 < file.first), len(ends))
        ends[free : free + 1] = [file.last]
        lanes[file.key] = free
    heights = {f.key: _THINNEST + (_THICKEST - _THINNEST) * (f.rows / most) ** 0.5 for f in files}
    tallest = [max(heights[key] for key, lane in lanes.items() if lane == at) for at in range(len(ends))]
    tops = list(accumulate((height + _GAP for height in tallest), initial=_FILES_Y))
    return {
        f.key: Bar(f, lanes[f.key], tops[lanes[f.key]] + (tallest[lanes[f.key]] - heights[f.key]) / 2, heights[f.key])
        for f in files
    }


def _grid(life: Life, xs: Mapping[int, float], column: float, bottom: float) -> list[str]:
    """A column for each version, with its number and operation."""
    parts = []
    for at, version in enumerate(life.versions):
        x = xs[version.number]
        if at % 2:
            parts.append(
                tag("rect", x=x - column / 2, y=_ID_Y - 44, width=column, height=bottom - _ID_Y + 44, class_="zebra")
            )
        parts.append(text(x, bottom + 14, number(version.number), class_="small muted", text_anchor="middle"))
        turn = f"rotate(-38 {x + 4:.1f} {bottom + 30:.1f})"
        parts.append(
            text(x + 4, bottom + 30, version.operation.lower(), class_="tiny muted", text_anchor="end", transform=turn)
        )
    parts.append(text(0, bottom + 14, "version", class_="small muted"))
    return parts


def _bar(bar: Bar, xs: Mapping[int, float], column: float) -> str:
    file = bar.file
    left, right = xs[file.first] - column / 2 + 2, xs[file.last] + column / 2 - 2
    ends = "still there" if file.is_live else f"until version {file.last}"
    tooltip = f"{file_name(file.key)}: {many(file.rows, 'row')}, from version {file.first}, {ends}"
    return tag(
        "rect",
        hint(tooltip),
        x=left,
        y=bar.top,
        width=right - left,
        height=bar.height,
        rx=min(4.0, bar.height / 2),
        class_="file live" if file.is_live else "file",
    )


def _places(placed: Sequence[Event], bars: Mapping[str, Bar], xs: Mapping[int, float], column: float) -> list[str]:
    """The row within its files: a line that jumps when the row moves."""
    stays = [(event, bars[file], xs[_version(event)]) for event in placed if (file := event.file) in bars and file]
    path, dots = "", []
    for at, (event, bar, x) in enumerate(stays):
        following = stays[at + 1 : at + 2]
        until = following[0][2] - column / 2 - 6 if following else xs[bar.file.last] + column / 2 - 4
        path += f"M{x:.1f} {bar.middle:.1f}H{until:.1f}"
        dots.append(_dot(event, x, bar.middle))
    for (_, old, _), (_, new, end) in pairwise(stays):
        start = end - column / 2 - 6
        bend = (end - start) * 0.7
        path += f"M{start:.1f} {old.middle:.1f}C{start + bend:.1f} {old.middle:.1f} "
        path += f"{end - bend:.1f} {new.middle:.1f} {end:.1f} {new.middle:.1f}"
    return [tag("path", d=path, class_="halo"), tag("path", d=path, class_="place"), *dots]


def _identity(placed: Sequence[Event], row: Biography, xs: Mapping[int, float], column: float) -> list[str]:
    """The straight line of the id, with the events of the row."""
    born, end = xs[_version(placed[0])], max(xs.values()) + (column / 2 - 4 if row.alive else 0)
    parts = [tag("line", x1=born, y1=_ID_Y, x2=end, y2=_ID_Y, class_="identity")]
    level, last = 0, -_LABEL
    for event in placed:
        x = xs[_version(event)]
        level = (level + 1) % 2 if x - last < _LABEL else 0
        last = x
        parts.append(tag("line", x1=x, y1=_ID_Y - 6, x2=x, y2=_ID_Y - 12 - 16 * level, class_="stem"))
        parts.append(text(x, _ID_Y - 16 - 16 * level, event.what.value, class_="small row", text_anchor="middle"))
        place = f"{file_name(event.file or '')[:4]} : {event.position}"
        parts.append(text(x, _ID_Y + 24 + 15 * level, place, class_="tiny muted", text_anchor="middle"))
        parts.append(_dot(event, x, _ID_Y))
    return parts


def _dot(event: Event, x: float, y: float) -> str:
    tooltip = f"version {event.version}, {event.operation}: {event.what.value}, position {event.position}"
    return tag("circle", hint(tooltip), cx=x, cy=y, r=5, class_="dot")


def _version(event: Event) -> int:
    assert event.version is not None, "only events with a version are drawn"
    return event.version
