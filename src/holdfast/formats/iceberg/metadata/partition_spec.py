"""Partition specs, and the unified partition type over all specs of a table.

1. A partition field is known by its id in all specs; the unified type has one optional field per id, ordered by id.
2. The newest spec gives a field its name; where it dropped the field (void), an older spec gives the type. Names are
   unique: a field whose name a newer field has taken gets its id as a suffix, as Iceberg does for dropped fields.
3. A field whose source column is no longer in the schema is not in the unified type. An unknown transform is refused
   in any case, because its values have no type.
4. Two specs that use one field id for different sources or transforms are Damaged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.iceberg.metadata.types import parse_primitive
from holdfast.schema.types import DataType
from holdfast.storage.error_mapping import parsing

FIRST_FIELD_ID = 1000  # of partition fields in tables that do not number them
_PARAMETER = re.compile(r"(bucket|truncate)\[(\d{1,10})\]")
_LARGEST_PARAMETER = 2**31 - 1  # a width, or a number of buckets
_PLURALS = {"years": "year", "months": "month", "days": "day", "hours": "hour"}
_KNOWN = frozenset({"identity", "void", "year", "month", "day", "hour", "bucket", "truncate"})


@dataclass(frozen=True, slots=True)
class Transform:
    """A partition transform, such as `bucket[16]`."""

    kind: str
    parameter: int | None = None

    @property
    def is_known(self) -> bool:
        return self.kind in _KNOWN

    def result(self, source: str) -> str:
        """The type of its values as Iceberg spells it, for a source column of a type."""
        match self.kind:
            case "day":
                return "date"
            case "year" | "month" | "hour" | "bucket":
                return "int"
            case _:
                return source


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A field of a partition spec."""

    source_id: int
    field_id: int
    name: str
    transform: Transform


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """A partition spec."""

    spec_id: int
    fields: tuple[PartitionField, ...]

    @property
    def is_unpartitioned(self) -> bool:
        return all(f.transform.kind == "void" for f in self.fields)


@dataclass(frozen=True, slots=True)
class UnifiedField:
    """A field of the unified partition type."""

    field_id: int
    name: str
    source_id: int
    transform: Transform
    spelled: str  # its type as Iceberg spells it
    type: DataType


def parse_transform(text: str) -> Transform:
    """A transform from its text in metadata."""
    if (match := _PARAMETER.fullmatch(text)) and 0 < (parameter := int(match[2])) <= _LARGEST_PARAMETER:
        return Transform(match[1], parameter)
    return Transform(_PLURALS.get(text, text))


def parse_specs(raw: Sequence[Mapping[str, Any]], *, where: str) -> dict[int, PartitionSpec]:
    """The partition specs of a table, by id."""
    with parsing(where, "has a malformed partition spec"):
        return {int(s.get("spec-id", 0)): PartitionSpec(int(s.get("spec-id", 0)), _fields(s["fields"])) for s in raw}


def _fields(raw: Sequence[Mapping[str, Any]]) -> tuple[PartitionField, ...]:
    return tuple(
        PartitionField(
            int(f["source-id"] if "source-id" in f else f["source-ids"][0]),
            int(f.get("field-id", FIRST_FIELD_ID + at)),
            str(f["name"]),
            parse_transform(f["transform"]) if len(f.get("source-ids", ())) < 2 else Transform("multi-argument"),
        )
        for at, f in enumerate(raw)
    )


def unified_fields(
    specs: Mapping[int, PartitionSpec], sources: Mapping[int, str], *, where: str
) -> tuple[UnifiedField, ...]:
    """The unified partition type; `sources` are the types of the current schema's columns, by field id."""
    newest: dict[int, PartitionField] = {}
    typed: dict[int, PartitionField] = {}
    for spec in sorted(specs.values(), key=lambda s: -s.spec_id):
        for f in spec.fields:
            if not f.transform.is_known:
                raise Unsupported(
                    f"{where} is partitioned by {f.transform.kind}, which Holdfast does not know, so that the type of "
                    "its partition values cannot be told",
                    features=(f.transform.kind,),
                )
            if f.source_id not in sources:
                continue
            newest.setdefault(f.field_id, f)
            other = typed.setdefault(f.field_id, f)
            if other.transform.kind == "void" and f.transform.kind != "void":
                typed[f.field_id] = f
            elif f.transform.kind != "void" and (other.source_id, other.transform) != (f.source_id, f.transform):
                raise Damaged(
                    f"two partition specs of {where} use the field id {f.field_id} for {other.name} and for {f.name}",
                    path=where,
                )
    names = _unique({field_id: f.name for field_id, f in newest.items()})
    return tuple(_unified_field(names[field_id], typed[field_id], sources, where) for field_id in sorted(newest))


def _unique(names: Mapping[int, str]) -> dict[int, str]:
    """Names by field id, the newest field first, made unique (rule 2)."""
    unique: dict[int, str] = {}
    for field_id, name in names.items():
        own = name
        while own in unique.values() or (own != name and own in names.values()):
            own = f"{own}_{field_id}"
        unique[field_id] = own
    return unique


def _unified_field(name: str, f: PartitionField, sources: Mapping[int, str], where: str) -> UnifiedField:
    spelled = f.transform.result(sources[f.source_id])
    type_ = parse_primitive(spelled, column=name, where=where)
    return UnifiedField(f.field_id, name, f.source_id, f.transform, spelled, type_)
