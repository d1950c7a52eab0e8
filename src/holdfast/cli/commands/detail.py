"""`holdfast detail`: what a table is. Reads nothing but the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import pyarrow.compute as pc
from rich.text import Text

from holdfast.cli.command import at_option, on_table, version_option
from holdfast.cli.output import Answer, records
from holdfast.cli.screen import Head, age_text, count_text, facts, grid, heading, say, size_text, time_text
from holdfast.cli.target import Opened, Target
from holdfast.env import system
from holdfast.formats.delta.detail import describe, detail
from holdfast.formats.delta.history.pins import pins_of
from holdfast.formats.delta.state import DeltaState
from holdfast.model.snapshot import Snapshot
from holdfast.plan.dml.arithmetic import live_counts
from holdfast.schema.properties import COLUMN_MAPPING_MAX_ID, MATERIALIZED_ROW_COMMIT_VERSION, MATERIALIZED_ROW_ID
from holdfast.schema.show import type_text

_INNER = (COLUMN_MAPPING_MAX_ID, MATERIALIZED_ROW_COMMIT_VERSION, MATERIALIZED_ROW_ID)  # not for users


@click.command("detail")
@on_table(iceberg=True)
@version_option
@at_option
def command(target: Target, answer: Answer, version: str | None, at: str | None) -> None:
    """What a table is: size, columns, settings, who can open it."""
    opened = target.open(version, at)
    size = _size(opened.snapshot)
    if answer.as_json:
        answer.lines([_record(opened, size)])
        return
    snapshot = opened.snapshot
    files, size_bytes = size["numFiles"], size["sizeInBytes"]
    each = f", {size_text(size_bytes // files)} each" if files > 1 else ""
    hidden = f", {count_text(size['hiddenRows'])} more are hidden by deletion vectors" if size["hiddenRows"] else ""
    now = system().now_ms()
    facts(
        [
            ("table", snapshot.location.url),
            (
                "version",
                f"{snapshot.version}, made {time_text(snapshot.timestamp_ms)} UTC "
                f"({age_text(snapshot.timestamp_ms, now)})",
            ),
            ("rows", "not told by the log" if size["numRows"] is None else count_text(size["numRows"]) + hidden),
            ("files", f"{count_text(files)}, {size_text(size_bytes)}{each}"),
            *_layout(opened),
            ("row ids", _identity(snapshot)),
        ]
    )
    heading("Columns")
    columns = [
        (f.name, type_text(f.type), "" if f.nullable else "not null", f.metadata.get("comment", ""))
        for f in snapshot.schema.fields
    ]
    grid([Head("name"), Head("type"), Head(""), Head("")], columns)
    if opened.delta is not None:
        _show_delta(opened.delta)
    elif snapshot.properties:
        heading("Properties")
        facts(sorted(snapshot.properties.items()))
    for note in snapshot.notes:
        say(f"note: {note}", style="yellow")


def _show_delta(state: DeltaState) -> None:
    described = describe(state)
    heading("Works by")
    own = {k: v for k, v in state.snapshot.properties.items() if k not in {*described.settings, *_INNER}}
    values: list[tuple[str, Any]] = sorted(own.items())
    values += [(k, v if k in described.asked else Text(f"{v} (default)", "dim")) for k, v in described.settings.items()]
    facts(values)
    heading("Opened by")
    facts(described.readers.items())


def _layout(opened: Opened) -> list[tuple[str, str]]:
    if opened.delta is None:
        placement = opened.snapshot.placement
        names = () if placement is None else placement.tuple_type.names
        layout = f"partitioned by {', '.join(names)}" if names else "not partitioned"
        return [("layout", layout), ("format", f"Iceberg, version {opened.iceberg.metadata.format_version}")]
    described = describe(opened.delta)
    pins = [f"{name} (version {version})" for name, version in pins_of(opened.delta).items()]
    row = [("layout", described.layout), ("features", ", ".join(described.features) or "none")]
    return [*row, ("pinned", ", ".join(pins))] if pins else row


def _identity(snapshot: Snapshot) -> str:
    if snapshot.identity is None:
        return (
            f"none: {'`holdfast enable-row-tracking` gives them' if snapshot.placement is None else snapshot.to_track}"
        )
    return f"every row has one; {count_text(snapshot.identity.high_water + 1)} handed out so far"


def _size(snapshot: Snapshot) -> Mapping[str, Any]:
    files = snapshot.files
    counts = live_counts(files)
    hidden = pc.struct_field(files.column("dv"), "cardinality") if len(files) else None
    return {
        "numFiles": len(files),
        "sizeInBytes": pc.sum(files.column("size")).as_py() or 0,
        "numRows": None if counts.null_count else pc.sum(counts).as_py() or 0,
        "hiddenRows": 0 if hidden is None else pc.sum(hidden).as_py() or 0,
    }


def _record(opened: Opened, size: Mapping[str, Any]) -> Mapping[str, Any]:
    snapshot = opened.snapshot
    columns = [{"name": f.name, "type": type_text(f.type), "nullable": f.nullable} for f in snapshot.schema.fields]
    mark = None if snapshot.identity is None else snapshot.identity.high_water
    more = {"version": snapshot.version, **size, "rowIdHighWater": mark, "columns": columns, "notes": snapshot.notes}
    if opened.delta is not None:
        return {**records(detail(opened.delta))[0], **more}
    return {
        "format": "iceberg",
        "location": snapshot.location.url,
        "formatVersion": opened.iceberg.metadata.format_version,
        "properties": dict(snapshot.properties),
        **more,
    }
