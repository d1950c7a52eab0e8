"""Changes properties, constraints, clustering columns and features of a table's definition; rows stay.

Each function makes a mutation without files from a definition; the commit derives the least protocol that it needs.

1. A change that depends on existing rows (row ids, constraints) reads all of them, so a row added meanwhile conflicts.
2. Columns that are mapped later keep the names that data files have for them.
3. A change that is true already returns the same definition.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.errors import Invalid, UnknownColumn, Unsupported
from holdfast.model.mutation import AllRows, Mutation, NoRows, Reads, TableDefinition
from holdfast.model.snapshot import Snapshot
from holdfast.model.write_spec import write_spec
from holdfast.plan.maintain.auto import BUDGET, budget_of
from holdfast.predicate.parse import unknown_names
from holdfast.schema.expressions import stored
from holdfast.schema.mapping import fields_along, logical_path, map_existing_columns, physical_path
from holdfast.schema.properties import (
    COLUMN_MAPPING_MAX_ID,
    COLUMN_MAPPING_MODE,
    CONSTRAINT,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ENABLE_ROW_TRACKING,
    FEATURE,
    ICEBERG_COMPAT,
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    LAYOUT,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    PROTECTED_BEFORE,
    ROW_TRACKING_SUSPENDED,
    truth,
)
from holdfast.schema.requests import Requested, requested, spelled
from holdfast.schema.show import path_text, type_text
from holdfast.schema.storable import is_bounded
from holdfast.verbs.define.columns import mapping_mode, path_of

_KEPT = frozenset(
    (
        COLUMN_MAPPING_MAX_ID,
        MATERIALIZED_ROW_ID,
        MATERIALIZED_ROW_COMMIT_VERSION,
        IN_COMMIT_TIMESTAMP_VERSION,
        IN_COMMIT_TIMESTAMP_TIME,
        PROTECTED_BEFORE,
    )
)
_SINCE_WHEN = frozenset((IN_COMMIT_TIMESTAMP_VERSION, IN_COMMIT_TIMESTAMP_TIME))
_LACKING = frozenset(  # properties that stand for features Holdfast does not write
    ("delta.enableMaterializePartitionColumnsFeature",)
)
_KEPT_ON = frozenset((*ICEBERG_COMPAT, "delta.enableVariantShredding"))
_OWN = "holdfast."
_COMMENT = "comment"  # said like a property, and kept as the table's description
_MOST_CLUSTERING_COLUMNS = 4


def set_properties(snapshot: Snapshot, old: TableDefinition, settings: Mapping[str, str]) -> Mutation:
    """Set properties, and have features that are asked for as `delta.feature.<name>`."""
    wanted = requested(settings)
    for name, value in wanted.properties.items():
        if name.startswith(CONSTRAINT):
            raise Invalid(f"{name} is a constraint: use addConstraint({name.removeprefix(CONSTRAINT)!r}, expression)")
        if name.startswith(_OWN) and name not in (known := (*BUDGET, LAYOUT)):
            near = difflib.get_close_matches(name.removeprefix(_OWN), [each.removeprefix(_OWN) for each in known], n=1)
            hint = f"did you mean {_OWN}{near[0]}?" if near else "it is asked for when a table is made, or not at all"
            raise Invalid(f"the property {name} cannot be set on a table that is there: {hint}")
        if name in _LACKING and truth(value):
            raise Unsupported(f"Holdfast does not write tables with {name}=true: leave it out")
        if name in _KEPT_ON and truth(value) and not truth(old.properties.get(name)):
            raise Unsupported(
                f"Holdfast keeps what {name}=true promises where another engine set it, and does not set it itself: "
                "leave it out"
            )
    properties = {**old.properties, **wanted.properties}
    description = properties.pop(_COMMENT) or None if _COMMENT in wanted.properties else old.description
    shape = replace(old, properties=properties, features=wanted.features, description=description)
    return _propertied(
        snapshot, old, shape, "SET TBLPROPERTIES", {"properties": json.dumps({**wanted.properties, **_said(wanted)})}
    )


def unset_properties(snapshot: Snapshot, old: TableDefinition, names: Sequence[str], *, if_exists: bool) -> Mutation:
    """Take properties away; their defaults count again."""
    known = [name if name in old.properties else spelled(name) for name in names]
    for name in known:
        if name.startswith(CONSTRAINT):
            raise Invalid(f"{name} is a constraint: use dropConstraint({name.removeprefix(CONSTRAINT)!r})")
        if name.startswith(FEATURE):
            raise Invalid(f"{name} is a feature: use dropFeatureSupport({name.removeprefix(FEATURE)!r})")
        if name in _KEPT:
            raise Invalid(f"the property {name} is kept by the table itself: leave it out")
        if name not in old.properties and not if_exists:
            raise Invalid(f"the table has no property {name} to unset: leave it out, or say ifExists=True")
    shape = replace(old, properties={k: v for k, v in old.properties.items() if k not in known})
    parameters = {"properties": json.dumps(known), "ifExists": if_exists}
    return _propertied(snapshot, old, shape, "UNSET TBLPROPERTIES", parameters)


def add_constraint(old: TableDefinition, name: str, expression: str) -> Mutation:
    """Demand that an expression is true of every row; the caller has looked at those that are there."""
    ((key, _),) = requested({CONSTRAINT + name: expression}).properties.items()
    if key in old.properties:
        raise Invalid(
            f"the table has a constraint {key.removeprefix(CONSTRAINT)} already ({old.properties[key]}): drop it "
            "first, or choose another name"
        ).named("DELTA_CONSTRAINT_ALREADY_EXISTS")
    if unknown := unknown_names(expression, old.schema):
        raise UnknownColumn(
            f"the constraint {name} ({expression}) names {unknown[0]}, but the table has {', '.join(old.schema.names)}",
            column=unknown[0],
        )
    stored(expression, old.schema, f"CHECK constraint {name}")
    shape = replace(old, properties={**old.properties, key: expression})
    parameters = {"name": key.removeprefix(CONSTRAINT), "expr": expression}
    return Mutation("ADD CONSTRAINT", parameters, reads=AllRows(), shape=shape)


def drop_constraint(old: TableDefinition, name: str, *, if_exists: bool) -> Mutation:
    """Demand no more what a constraint said."""
    key = spelled(CONSTRAINT + name)
    if key not in old.properties and not if_exists:
        there = ", ".join(sorted(k.removeprefix(CONSTRAINT) for k in old.properties if k.startswith(CONSTRAINT)))
        wrong = Invalid(f"the table has no constraint {name}: it has {there or 'none'}; or say ifExists=True")
        raise wrong.named("DELTA_CONSTRAINT_DOES_NOT_EXIST")
    shape = replace(old, properties={k: v for k, v in old.properties.items() if k != key})
    parameters = {"name": key.removeprefix(CONSTRAINT), "expr": old.properties.get(key)}
    return Mutation("DROP CONSTRAINT", parameters, shape=shape)


def cluster_by(old: TableDefinition, names: Sequence[str]) -> Mutation:
    """Cluster rows written from now on by these columns, or by none."""
    if old.partition_columns and names:
        raise Invalid(f"the table is partitioned by {', '.join(old.partition_columns)}: it cannot be clustered as well")
    paths = [path_of(old.schema, name) for name in names]
    if len(set(paths)) < len(paths):
        raise Invalid(f"a clustering column is named twice: {', '.join(names)}")
    if len(paths) > _MOST_CLUSTERING_COLUMNS:
        raise Invalid(f"a table is clustered by at most {_MOST_CLUSTERING_COLUMNS} columns, not {len(paths)}")
    for path in paths:
        type_ = fields_along(old.schema, path)[-1].type
        if not is_bounded(type_):
            raise Invalid(f"the table cannot be clustered by {path_text(path)}, because it is {type_text(type_)}")
    before = [path_text(logical_path(old.schema, path)) for path in old.clustering_columns or ()]
    parameters = {"oldClusteringColumns": ",".join(before), "newClusteringColumns": ",".join(map(path_text, paths))}
    columns = tuple(physical_path(old.schema, path) for path in paths)
    never = old.clustering_columns is None and not columns
    return Mutation("CLUSTER BY", parameters, shape=old if never else replace(old, clustering_columns=columns))


def add_feature(old: TableDefinition, name: str, protocol: Mapping[str, Any]) -> Mutation:
    """Support a feature; `protocol` is what the table's format makes of it."""
    parameters = {"newProtocol": json.dumps(dict(protocol))}
    return Mutation("UPGRADE PROTOCOL", parameters, shape=replace(old, features=frozenset((name,))))


def _said(wanted: Requested) -> dict[str, str]:
    return {FEATURE + name: "supported" for name in sorted(wanted.features)}


def _propertied(
    snapshot: Snapshot, old: TableDefinition, shape: TableDefinition, operation: str, parameters: Mapping[str, Any]
) -> Mutation:
    """A change of properties, with what they bring about."""
    shape = _mapped(old, shape)
    write_spec(shape.schema, shape.partition_columns, shape.properties)  # refuses values that no write could use
    budget_of(shape.properties)
    if not truth(shape.properties.get(ENABLE_IN_COMMIT_TIMESTAMPS)):
        # What they were on since means nothing once they are off, and would be wrong when they are on again.
        shape = replace(shape, properties={k: v for k, v in shape.properties.items() if k not in _SINCE_WHEN})
    return Mutation(operation, parameters, reads=_tracked(snapshot, old, shape), shape=shape)


def _tracked(snapshot: Snapshot, old: TableDefinition, shape: TableDefinition) -> Reads:
    """What turning on row tracking depends on: that every file has row ids."""
    if not truth(shape.properties.get(ENABLE_ROW_TRACKING)):
        return NoRows()
    if truth(shape.properties.get(ROW_TRACKING_SUSPENDED)):
        raise Invalid(
            f"row tracking is either on or suspended: set {ENABLE_ROW_TRACKING} or {ROW_TRACKING_SUSPENDED} to false"
        )
    if truth(old.properties.get(ENABLE_ROW_TRACKING)):
        return NoRows()
    if without := snapshot.files.column("base_row_id").null_count:
        raise Invalid(
            f"{without} of the {len(snapshot.files)} files of {snapshot.location.url} have no row ids yet, so "
            f"{ENABLE_ROW_TRACKING}=true alone would not be true: use enableRowTracking()"
        )
    return AllRows()


def _mapped(old: TableDefinition, shape: TableDefinition) -> TableDefinition:
    """The shape with its columns mapped, where the properties newly ask for it."""
    before, after = mapping_mode(old), mapping_mode(shape)
    if before == after:
        return shape
    if (before, after) != ("none", "name"):
        raise Invalid(
            f"{COLUMN_MAPPING_MODE} is {before} and cannot become {after} without writing every file again: only none "
            "becomes name, and dropFeatureSupport('columnMapping') writes them without"
        )
    mapped = map_existing_columns(shape.schema, max_id=int(shape.properties.get(COLUMN_MAPPING_MAX_ID, "0")))
    properties = {**shape.properties, COLUMN_MAPPING_MAX_ID: str(mapped.max_id)}
    return replace(shape, schema=mapped.schema, properties=properties)
