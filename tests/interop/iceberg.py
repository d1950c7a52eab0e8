"""The Iceberg half of `make interop`: our tables in the hands of others, theirs in ours, and what came of it.

1. Every engine has to be there: without one of them nothing is written down.
2. Wrong rows, wrong metadata columns or an engine that breaks over our bytes fail the run, after everything was tried.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from tests.formats.iceberg.rest import rest_catalog
from tests.interop import iceberg_foreign as foreign
from tests.interop import iceberg_home
from tests.interop.answers import Answer, KnownBug, Refused, Works, Wrong, compared, said
from tests.interop.iceberg_engines import LINEAGE, Engines, Reader, start
from tests.interop.iceberg_page import Foreign, section
from tests.interop.iceberg_stories import PLOTS, Plot, Told, tell

_NO_NULL_LISTS = (
    "reads a list of structs that is null as an empty one, in its own tables too; all else is right: "
    "[iceberg-python#3833](https://github.com/apache/iceberg-python/issues/3833)"
)
Found: TypeAlias = dict[tuple[str, Plot], list[tuple[Told, Answer]]]  # by engine and story, each step


def run(scratch: Path) -> str:
    """Ask everyone about everything; the section of the page. Raises SystemExit where something was wrong."""
    if (trouble := iceberg_home.make()) is not None:
        raise SystemExit(f"engines for Iceberg are missing: {trouble}")
    with rest_catalog(scratch) as (catalog, server), ExitStack() as stack:
        server.catalog.create_namespace("db")
        engines = start(scratch, catalog["uri"], server.catalog, stack)
        ours = stories(engines, scratch)
        theirs: Foreign = {}
        for writer in foreign.writers(engines, server.catalog, scratch):
            for kind in writer.kinds:
                began = time.monotonic()
                told = theirs[writer.reader.name, kind] = list(
                    foreign.tell(writer, engines.java, kind, catalog, server.catalog)
                )
                _say(f"by {writer.reader.name}", kind.title, [answer for _, answer in told], began)
    written = section(engines.readers, ours, theirs)
    answers = [answer for done in (*ours.values(), *theirs.values()) for _, answer in done]
    if wrong := [answer for answer in answers if isinstance(answer, Wrong)]:
        print(written)
        raise SystemExit(f"{len(wrong)} answers about Iceberg tables are wrong: see above; the page is left as it was")
    return written


def stories(engines: Engines, scratch: Path) -> Found:
    """What each engine reads of our tables, after each of their steps."""
    found: Found = {}
    for number, plot in enumerate(PLOTS):
        began = time.monotonic()
        home = scratch / f"story-{number}"
        os.mkdir(home)
        for told in tell(plot, home):
            assert compared(told.table.toArrow(), told.rows) == Works(), f"{plot.title}: {told.step}, as we read it"
            for reader in engines.readers:
                found.setdefault((reader.name, plot), []).append((told, reads(reader, told)))
        done = [answer for reader in engines.readers for _, answer in found[reader.name, plot]]
        _say("by us", plot.title, done, began)
    return found


def reads(reader: Reader, told: Told) -> Answer:
    """Whether an engine reads the rows of a table, with all it can tell of each."""
    asked = [name for name in reader.tells if told.has_ids or name not in LINEAGE]
    try:
        found = reader.rows(told.metadata, asked)
    except Refused as error:
        return said(error)
    answer = compared(found, told.table.toArrow(metadata=asked) if asked else told.rows)
    if isinstance(answer, Wrong) and reader.name == "pyiceberg" and compared(found, _emptied(told.rows)) == Works():
        return KnownBug(_NO_NULL_LISTS)
    return answer


def _emptied(rows: pa.Table) -> pa.Table:
    """The rows, with an empty list wherever there is none."""
    at = rows.column_names.index("tags")
    filled = [given or [] for given in rows["tags"].to_pylist()]
    return rows.set_column(at, rows.schema.field("tags"), pa.array(filled, rows.schema.field("tags").type))


def _say(writer: str, title: str, answers: list[Answer], began: float) -> None:
    counts = f"{sum(a == Works() for a in answers)} of {len(answers)} work"
    print(f"{writer:<16} {time.monotonic() - began:5.1f} s  {counts:<16} {title}", flush=True)
    for text in dict.fromkeys(str(answer) for answer in answers if not isinstance(answer, Works)):
        print(f"  {text}", flush=True)
