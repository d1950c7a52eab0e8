"""Plans a scan: which files to read, and which columns and metadata columns to give.

1. Every file that can hold a row of the result is planned; an engine reads each planned file or raises.
2. The output has the requested columns in the requested order, then the metadata columns in the requested order.
3. A metadata column never shadows a user's column: requesting both under one name is refused.
4. Columns that only the condition needs are read, and dropped after it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import Invalid, NoRowIdentity, UnknownColumn
from holdfast.model.files import FileTable
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.metadata_columns import MetadataColumns
from holdfast.plan.scan.prune import Pruner, PruningStep, Want, prune
from holdfast.predicate.reader_skipping import in_doubt, may_lose_rows
from holdfast.predicate.records import Constant, Predicate
from holdfast.rows import columns as names
from holdfast.schema.types import LONG, STRING, Field, Primitive, Struct


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on rows: as the user gave it, and as far as it was parsed."""

    source: Any  # SQL text, or a Column that only Spark can apply
    text: str  # for people to read
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Request:
    columns: Sequence[str] | None = None
    where: Condition | None = None
    metadata: Mapping[str, str] | Sequence[str] = ()


@dataclass(frozen=True)
class ScanPlan:
    """The files that an engine reads, and the columns that it gives."""

    snapshot: Snapshot
    files: FileTable
    steps: tuple[PruningStep, ...]
    columns: tuple[Field, ...]
    metadata: MetadataColumns
    where: Condition | None

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns of the table, in partition order."""
        return partition_fields(self.snapshot)

    def may_lose_rows(self, files: FileTable) -> bool:
        """Whether Spark's Parquet reader may wrongly skip rows of these files that satisfy the condition."""
        if self.where is None:
            return False
        predicate, schema = self.where.predicate, self.snapshot.schema
        doubt = in_doubt(predicate, schema)
        in_files = doubt is not None and len(prune(files, Want(self.snapshot, doubt)).files) > 0
        return in_files or may_lose_rows(predicate, schema)


def plan_scan(snapshot: Snapshot, request: Request, *, more: Sequence[Pruner] = ()) -> ScanPlan:
    columns = _columns(snapshot, request.columns)
    metadata = _metadata(snapshot, columns, request.metadata)
    predicate = Constant(True) if request.where is None else request.where.predicate
    pruned = prune(snapshot.files, Want(snapshot, predicate, metadata), more)
    return ScanPlan(snapshot, pruned.files, pruned.steps, columns, metadata, request.where)


def known_columns(snapshot: Snapshot, metadata: Mapping[str, str] | Sequence[str]) -> Struct:
    """The columns that a condition may name: the table's, and the requested metadata columns."""
    pairs = metadata.items() if isinstance(metadata, Mapping) else [(name, name) for name in metadata]
    fields = [metadata_field(snapshot, names.canonical(name), output) for name, output in pairs]
    free = [f for f in fields if snapshot.schema.find(f.name) is None]
    return Struct((*snapshot.schema.fields, *free))


def refuse_unknown(unknown: Sequence[str], known: Struct) -> None:
    """Refuse names in a condition that are no columns, with a hint."""
    for name in unknown:
        _field(known, name)


def with_metadata(snapshot: Snapshot, schema: Struct, metadata: MetadataColumns) -> Struct:
    """The columns of the schema, and these metadata columns."""
    return Struct(
        (*schema.fields, *(metadata_field(snapshot, canonical, name) for name, canonical in metadata.canonical.items()))
    )


def metadata_field(snapshot: Snapshot, name: str, output: str) -> Field:
    """A metadata column, by its canonical name, as a field of the output."""
    match name:
        case names.FILE:
            return Field(output, STRING)
        case names.PARTITION:
            placement = snapshot.placement
            return Field(output, Struct(partition_fields(snapshot)) if placement is None else placement.tuple_type)
        case names.SPEC_ID:
            return Field(output, Primitive("integer"))
        case names.DELETED:
            return Field(output, Primitive("boolean"))
        case names.FILE_TIME:
            return Field(output, Primitive("timestamp"))
        case _:
            return Field(output, LONG)


def is_available(snapshot: Snapshot, canonical: str) -> bool:
    """Whether rows of a snapshot have this metadata column."""
    if canonical in names.NEEDS_TRACKING:
        return snapshot.identity is not None
    return canonical != names.SPEC_ID or snapshot.placement is not None


def check_available(snapshot: Snapshot, canonical: str, name: str) -> None:
    """Refuse a metadata column that rows of a snapshot do not have; `name` is the user's name of it."""
    if is_available(snapshot, canonical):
        return
    if canonical in names.NEEDS_TRACKING:
        raise NoRowIdentity(
            f"{name} needs row tracking, which the table at {snapshot.location.url} does not have enabled; "
            f"{snapshot.to_track}"
        )
    raise Invalid(f"the table at {snapshot.location.url} has no partition specs, so its rows have no {name}")


def partition_fields(snapshot: Snapshot) -> tuple[Field, ...]:
    """The fields of the partition columns, in partition order."""
    return tuple(_field(snapshot.schema, name) for name in snapshot.partition_columns)


def _columns(snapshot: Snapshot, requested: Sequence[str] | None) -> tuple[Field, ...]:
    if requested is None:
        return snapshot.schema.fields
    if isinstance(requested, str):
        raise Invalid(f"columns= takes a list of names, such as [{requested!r}]")
    fields = tuple(_field(snapshot.schema, name) for name in requested)
    twice = sorted({f.name for f in fields if fields.count(f) > 1})
    if twice:
        raise Invalid(f"columns= names {', '.join(twice)} more than once")
    return fields


def _field(schema: Struct, name: str) -> Field:
    field = schema.find(name)
    if field is not None:
        return field
    if name in (*names.METADATA_COLUMNS, *names.OTHER_SPELLINGS):
        raise UnknownColumn(f"{name} is a metadata column: ask for it with metadata=[{name!r}]", column=name)
    near = difflib.get_close_matches(name, schema.names, n=3)
    if not schema.names:
        raise UnknownColumn(f"the table has no column {name!r}, nor any other", column=name)
    hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(schema.names[:20])}"
    raise UnknownColumn(f"the table has no column {name!r}; {hint}", column=name)


def _metadata(
    snapshot: Snapshot, columns: tuple[Field, ...], requested: Mapping[str, str] | Sequence[str]
) -> MetadataColumns:
    if isinstance(requested, str):
        raise Invalid(f"metadata= takes a list of names, such as [{requested!r}]")
    pairs = dict(requested) if isinstance(requested, Mapping) else {name: name for name in requested}
    taken = {f.name.lower(): f.name for f in (*snapshot.schema.fields, *columns)}
    outputs: dict[str, str] = {}
    for name, output in pairs.items():
        canonical = names.canonical(name)
        if output.lower() in taken:
            raise Invalid(
                f"the table has a column {taken[output.lower()]!r} of its own: "
                f'give the metadata column another name, as in metadata={{"{name}": "{_free_name(name, taken)}"}}'
            )
        if canonical in outputs:
            raise Invalid(f"metadata= asks for {canonical} more than once")
        check_available(snapshot, canonical, name)
        taken[output.lower()] = output
        outputs[canonical] = output
    return MetadataColumns.of_outputs(outputs)


def _free_name(name: str, taken: Mapping[str, str]) -> str:
    short = {"_row_id": "rid", "_row_commit_version": "rversion"}.get(name, f"meta{name}")
    while short.lower() in taken:
        short += "_"
    return short
