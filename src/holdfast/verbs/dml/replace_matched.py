"""Overwrites with replaceUsing or replaceOn: new rows replace the rows that they match, in one commit.

    rows stored as files of the table -> read back as the source of a match -> what they meet taken out -> commit

1. The rows are evaluated and stored once: the files that are matched are those that are committed.
2. A row of the table that several rows meet goes once, and a null is equal to nothing.
3. Where others only move rows meanwhile, what is met is looked up anew; nothing is stored again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.engines.local.scan import scan_batches
from holdfast.errors import Invalid, UnknownColumn, Unsupported
from holdfast.model.files import FileTable, NoStats, Slab
from holdfast.model.format import DmlMode
from holdfast.model.mutation import AllRows, Mutation, RowsWhere, TableDefinition, staged_files
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.dml.change import Clause, Side, Source
from holdfast.plan.dml.keys import by_keys, few_keys, gather, row_group_filter
from holdfast.plan.dml.merge_condition import parse_merge_condition, source_aliases
from holdfast.plan.engine import IncomingRows
from holdfast.plan.scan.request import Request, plan_scan
from holdfast.predicate.records import ALWAYS
from holdfast.schema.constraints import quoted
from holdfast.schema.properties import CHANGE_FEED
from holdfast.schema.types import Struct
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.dml.strategy import DmlRequest, Effect, effect
from holdfast.verbs.dml.write import StagedRows, WriteOptions, Written, commit_anew, store_rows
from holdfast.verbs.dml.write_mutation import replaced
from holdfast.verbs.open.open_table import OpenTable

_LISTED = re.compile(r"\s*(?:`(?:[^`]|``)+`|[^,`\s][^,`]*)")
_TABLE, _ROWS = "_replaced", "_replacing"  # what the two are called where nobody names them


@dataclass(frozen=True, slots=True)
class Met:
    """Which rows of a table are to be replaced by those they meet, as it was asked for; nothing of it: none."""

    using: str | Sequence[str] | None = None
    on: str | None = None
    alias: str | None = None

    def matching(self, table: Struct, rows: Struct, how: WriteOptions) -> Matching | None:
        """What it comes to for this table and these rows."""
        if self.using is None and self.on is None:
            return None
        if self.using is not None and self.on is not None:
            raise Invalid("replaceUsing and replaceOn exclude each other: choose one")
        name = "replaceOn" if self.using is None else "replaceUsing"
        others = {"replaceWhere": how.replace_where is not None, "overwriteSchema": how.replace_schema}
        others |= {"partitionOverwriteMode=dynamic": how.dynamic}
        if clash := next((other for other, given in others.items() if given), None):
            raise Invalid(f"{clash} and {name} exclude each other: choose one")
        if not how.replace:
            raise Invalid(f"{name} goes with mode overwrite")
        return using(self.using, table, rows) if self.using is not None else on(self.on or "", self.alias)


@dataclass(frozen=True, slots=True)
class Matching:
    """Which rows are met: a condition on both sides, what it calls the table, and what history tells of it."""

    condition: str
    alias: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


def using(columns: str | Sequence[str], table: Struct, rows: Struct) -> Matching:
    """Rows with the same values in some columns are met; as text they stand between commas."""
    names = [_unquoted(part) for part in _LISTED.findall(columns)] if isinstance(columns, str) else list(columns)
    if not names:
        raise Invalid("replaceUsing names the columns by which rows are met: name at least one")
    for name in names:
        for side, schema in (("table", table), ("rows", rows)):
            if schema.find(name) is None:
                names_there = ", ".join(schema.names[:20])
                raise UnknownColumn(
                    f"replaceUsing names {name!r}, but the columns of the {side} are {names_there}", column=name
                )
    same = [f"{_TABLE}.{quoted(name)} = {_ROWS}.{quoted(name)}" for name in names]
    return Matching(" AND ".join(same), _TABLE, {"replaceUsingCols": f"({', '.join(names)})"})


def _unquoted(name: str) -> str:
    name = name.strip()
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def on(condition: str, alias: str | None) -> Matching:
    """Rows that satisfy a condition together are met; `alias` is what it calls the table."""
    return Matching(condition, alias, {"replaceOnCond": condition})


def replace_matched(
    table: OpenTable, rows: IncomingRows, how: WriteOptions, matching: Matching, call: ExecutionContext
) -> Written:
    """Put rows in the place of those they meet."""
    env = call.env
    mode = table.dml_mode(call.mode, "merge")
    if mode is DmlMode.COPY_ON_WRITE and table.snapshot.properties.get(CHANGE_FEED, "false").lower() == "true":
        raise Unsupported(
            f"the table at {table.snapshot.location.url} has a change data feed and no deletion vectors: set "
            "delta.enableDeletionVectors=true to replace the rows that others match"
        )
    stored = store_rows(table, rows, replace(how, replace=True), env)

    def mutation_on(at: OpenTable) -> Mutation:
        request = _request(at, stored, matching, mode, call)
        taking = Effect() if request is None else effect(request, call.engine, at.load_hidden, env.now_ms)
        reads = AllRows() if request is None or request.predicate == ALWAYS else RowsWhere(request.predicate)
        mutation = replaced(
            at.snapshot, stored.staged, taking, matching.parameters, how.commit_options, reads=reads, shape=stored.shape
        )
        return replace(mutation, tags={**mutation.tags, **stored.tags})

    return commit_anew(table, mutation_on, env)


def _request(
    table: OpenTable, stored: StagedRows, matching: Matching, mode: DmlMode, call: ExecutionContext
) -> DmlRequest | None:
    """The change that takes out what is met; None where there is nothing to meet."""
    snapshot, definition = table.snapshot, table.definition
    count = pc.sum(stored.staged.column("num_records")).as_py() or 0
    if not count or not len(snapshot.files):
        return None
    source = _as_source(snapshot, stored, definition)
    called = source_aliases([matching.condition], snapshot.schema, source.schema, matching.alias)
    if len(called) > 1:
        raise Invalid(
            f"the condition {matching.condition} has names qualified by {' and '.join(sorted(called))}: say by "
            "targetAlias which of them is the table"
        )
    alias = next(iter(called), None)
    known = parse_merge_condition(
        matching.condition, snapshot.schema, source.schema, matching.alias, alias, zone=call.zone
    )
    request = DmlRequest(
        snapshot,
        (Clause(Side.MATCHED, None),),
        snapshot.schema,
        mode,
        table.storing(definition, feeds=False),
        predicate=known.target_only,
        source=Source(source, matching.condition, known.keys, alias, count),
        alias=matching.alias,
    )
    if not known.keys:
        return request
    plan = plan_scan(source, Request(columns=list(dict.fromkeys(key.source for key in known.keys))))
    values = gather(scan_batches(plan, HiddenRows()), known.keys, source.schema)

    def keeps(files: FileTable) -> pa.BooleanArray:
        return by_keys(files, snapshot, values)

    more = table.pruners(few_keys(values, snapshot.schema))
    return replace(request, keeps=keeps, skips=row_group_filter(values, snapshot.schema), more=more)


def _as_source(snapshot: Snapshot, stored: StagedRows, definition: TableDefinition) -> Snapshot:
    """Files that are not committed yet, as a table of their own."""
    files = staged_files(stored.staged, snapshot.placement)
    return replace(
        snapshot,
        schema=(stored.shape or definition).schema,
        files=FileTable((Slab(files, NoStats(files.num_rows)),)),
        identity=None,
        clustering_columns=(),
    )
