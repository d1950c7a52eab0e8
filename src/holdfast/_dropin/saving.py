"""What `save`, `saveAsTable`, `insertInto` and `writeTo` come to: rows into a table, new or there.

    where the table is, and whether it is there  ->  mode and options understood  ->  one commit

1. A table that is made gets its rows in the commit that makes it.
2. An option works or is refused by its name; one that is none of Delta's is Spark's business, as in delta-spark.
3. A name is entered into the catalog before the first commit and taken out again where that fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from holdfast._dropin.errors import PATH_EXISTS, TABLE_EXISTS, TABLE_NOT_FOUND, as_delta_spark, dress
from holdfast._dropin.frames import memory_of, ordinary
from holdfast._dropin.options import SourceOptions
from holdfast._dropin.rearrange import rearrange
from holdfast._dropin.settings import SessionSettings, settings_of
from holdfast.engines.spark.session.catalog import enter, find, forget, split
from holdfast.engines.spark.types import spark_struct, spark_to_struct
from holdfast.env import system
from holdfast.errors import Invalid, NotATable, Unsupported
from holdfast.model.mutation import AppVersion, TableDefinition
from holdfast.model.snapshot import Snapshot
from holdfast.model.write_spec import CODEC, FILE_ROWS
from holdfast.schema.properties import OPTIMIZE_WRITE, truth
from holdfast.sql.resolver import TableResolver, path_of
from holdfast.storage.location import Location
from holdfast.table.delta import DeltaTable
from holdfast.table.either import IcebergTable
from holdfast.verbs.define.builder import PLAIN, CreateMode, DeltaTableBuilder, without_plain
from holdfast.verbs.define.create import create_with
from holdfast.verbs.dml.replace_matched import Met
from holdfast.verbs.dml.verbs import write
from holdfast.verbs.dml.write import WriteOptions
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.open.engine import rows_of, zone_of
from holdfast.verbs.stream.follow import nullable

KNOWN = (
    *("mergeSchema", "overwriteSchema", "replaceWhere", "partitionOverwriteMode", "txnAppId", "txnVersion"),
    *("userMetadata", "dataChange", "optimizeWrite", "maxRecordsPerFile", "compression", "path"),
    *("replaceOn", "replaceUsing", "targetAlias"),
)
_MODES = {
    "append": "append",
    "overwrite": "overwrite",
    "error": "error",
    "errorifexists": "error",
    "default": "error",
    "ignore": "ignore",
}
_OTHER_ROWS = ("mergeSchema", "overwriteSchema", "partitionOverwriteMode", "replaceOn", "replaceUsing")
_LOST = (
    "with dataChange=false rows keep their ids, and these have lost them: write what was read of the table as it is, "
    "with where, repartition, coalesce or sort and nothing else, or call optimize()"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SaveRequest:
    """How rows are to be written."""

    mode: str = "error"
    partitions: tuple[str, ...] = ()
    clustering: tuple[str, ...] = ()
    options: SourceOptions = field(default_factory=SourceOptions)
    properties: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    where: str | None = None  # rows to take the place of
    dynamic: bool | None = None  # the partitions that the rows have; None: as option and setting say


def mode_of(mode: str | None) -> str:
    """A save mode by its one name."""
    found = _MODES.get((mode or "error").lower())
    if found is None:
        raise Invalid(f"{mode!r} is no save mode: there are append, overwrite, error, errorifexists and ignore")
    return found


def save(rows: DataFrame, path: str, ask: SaveRequest) -> None:
    """Write rows to the table at a path."""
    with as_delta_spark():
        spark = rows.sparkSession
        at = f"`{path}`"
        if not DeltaTable.isDeltaTable(spark, at, storage_options=ask.options.storage()):
            _create(rows, path, ask, settings_of(spark), CreateMode.CREATE, by_path=True)
        elif ask.mode == "error":
            raise dress(
                Invalid(f"there is a Delta table at {path} already: use another mode, such as append"), PATH_EXISTS
            )
        elif ask.mode != "ignore":
            table = DeltaTable.forPath(spark, path, storage_options=ask.options.storage())
            write_into(rows, table, ask)


def save_as_table(rows: DataFrame, name: str, ask: SaveRequest, known: TableResolver) -> None:
    """Write rows to the table of a name, which is entered where there is none."""
    with as_delta_spark():
        spark, parts = rows.sparkSession, split(name)
        if (path := path_of(parts)) is not None:
            return save(rows, path, ask)
        found = known.table(spark, parts)
        if found is None:
            return _enter(rows, parts, ask, settings_of(spark), CreateMode.CREATE)
        if ask.mode == "error":
            raise dress(Invalid(f"there is a table {name} already: use another mode, such as append"), TABLE_EXISTS)
        if ask.mode != "ignore":
            write_into(rows, found.table, ask)
    return None


def create_table(rows: DataFrame, name: str, ask: SaveRequest, known: TableResolver, mode: CreateMode) -> None:
    """Make a table of a name with these rows, as the mode says."""
    with as_delta_spark():
        spark, parts, settings = rows.sparkSession, split(name), settings_of(rows.sparkSession)
        if (path := path_of(parts)) is not None:
            return _create(rows, path, ask, settings, mode)
        found = known.table(spark, parts)
        if found is None and mode is CreateMode.REPLACE:
            raise dress(NotATable(f"there is no table {name} to replace: use create", location=name), TABLE_NOT_FOUND)
        if found is None:
            return _enter(rows, parts, ask, settings, mode)
        if mode is CreateMode.CREATE:
            raise dress(Invalid(f"there is a table {name} already: append to it, or use createOrReplace"), TABLE_EXISTS)
        if isinstance(found.table, IcebergTable) or found.entry is None:
            raise Unsupported(f"{name} is registered with Holdfast and cannot be replaced by name: use its own verbs")
        return _create(rows, found.entry.location, ask, settings, mode)


def table_named(spark: SparkSession, name: str, known: TableResolver) -> DeltaTable | IcebergTable:
    """The table of a name."""
    found = known.table(spark, split(name))
    if found is None:
        raise dress(NotATable(f"there is no Delta table {name} in this session", location=name), TABLE_NOT_FOUND)
    return found.table


def insert_into(rows: DataFrame, name: str, ask: SaveRequest, known: TableResolver) -> None:
    """Write rows to the table of a name, column by column in their order."""
    with as_delta_spark():
        table = table_named(rows.sparkSession, name, known)
        columns = table.handle.newest().snapshot.schema.names
        if len(columns) != len(rows.columns):
            raise Invalid(
                f"insertInto goes by position: {name} has {len(columns)} columns ({', '.join(columns)}) and the rows "
                f"have {len(rows.columns)}"
            )
        if (
            isinstance(table, IcebergTable) and ask.options.get("replaceWhere") is None
        ):  # as Spark does; `save` does not
            ask = replace(ask, dynamic=_is_dynamic(ask, settings_of(rows.sparkSession), table.handle.is_partitioned()))
        write_into(ordinary(rows).toDF(*columns), table, ask)


def write_into(rows: DataFrame, table: DeltaTable | IcebergTable, ask: SaveRequest) -> None:
    """Append to a table that is there, or overwrite it."""
    settings = settings_of(rows.sparkSession)
    if isinstance(table, IcebergTable):
        return _write_iceberg(ordinary(rows), table, ask)
    if not ask.options.flag("dataChange", True):
        return _rearrange(rows, table, ask, settings)
    rows = ordinary(rows)
    refuse_options(ask.options)
    snapshot = table.handle.newest().snapshot
    replaces_schema = ask.mode == "overwrite" and ask.options.flag("overwriteSchema")
    where = ask.where if ask.where is not None else ask.options.get("replaceWhere")
    if ask.partitions and ask.partitions != snapshot.partition_columns and not replaces_schema:
        raise Invalid(
            f"the table is partitioned by {', '.join(snapshot.partition_columns) or 'nothing'}, not by "
            f"{', '.join(ask.partitions)}: leave partitionBy out, or overwrite with overwriteSchema=true"
        ).named("DELTA_METADATA_MISMATCH")
    merges = ask.options.flag("mergeSchema", settings.merges_schema)
    dynamic = ask.mode == "overwrite" and where is None and _is_dynamic(ask, settings, bool(snapshot.partition_columns))
    if ask.mode != "overwrite" and ask.options.get("replaceWhere") is not None:
        raise Invalid("replaceWhere goes with mode overwrite")
    if replaces_schema and (where is not None or (dynamic and ask.options.get("partitionOverwriteMode"))):
        raise Invalid("overwriteSchema replaces the whole table: leave replaceWhere and dynamic mode out")
    met = _met(ask)
    if replaces_schema and ask.partitions != snapshot.partition_columns and met == Met():
        return _replace(rows, table, ask, settings)
    _tell_ignored(table, ask)
    how = WriteOptions(
        replace=ask.mode == "overwrite",
        replace_where=where,
        zone=table.handle.zone,
        dynamic=dynamic and not replaces_schema,
        add_columns=merges and not replaces_schema,
        widen_types=merges and not replaces_schema and truth(snapshot.properties.get("delta.enableTypeWidening")),
        replace_schema=replaces_schema,
        commit_options=said_of(ask.options, settings),
        stored_as=_stored_as(ask.options),
    )
    write(table.handle, rows, how, table.handle.caller(), met)
    return None


def _met(ask: SaveRequest) -> Met:
    """Which rows are to be replaced by those they meet."""
    using, on, alias = (ask.options.get(name) for name in ("replaceUsing", "replaceOn", "targetAlias"))
    if ask.mode != "overwrite" and (using is not None or on is not None):
        raise Invalid(f"{'replaceOn' if using is None else 'replaceUsing'} goes with mode overwrite")
    if alias is not None and on is None:
        raise Invalid("targetAlias goes with replaceOn: it is what the condition calls the table")
    return Met(using, on, alias)


def said_of(options: SourceOptions, settings: SessionSettings) -> CommitOptions:
    """What a write says of itself: an application's version, and words for the history."""
    app, version = (
        options.get("txnAppId") or settings.txn("txnAppId"),
        options.get("txnVersion") or settings.txn("txnVersion"),
    )
    if (app is None) != (version is None):
        wrong = Invalid("txnAppId and txnVersion go together: give both, or none")
        raise wrong.named("DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS")
    if version is not None and not version.lstrip("-").isdigit():
        raise Invalid(f"txnVersion is a whole number, not {version!r}")
    done = None if app is None or version is None else AppVersion(app, int(version))
    return CommitOptions(done, options.get("userMetadata") or settings.user_metadata)


def _create(
    rows: DataFrame, path: str, ask: SaveRequest, settings: SessionSettings, mode: CreateMode, *, by_path: bool = False
) -> None:
    """Make a table of rows at a path."""
    refuse_options(ask.options)
    _met(ask)
    rows = ordinary(rows)
    describe(partial(_made_of, rows, ask, settings, by_path), mode, rows, path, ask, settings).execute()


def describe(
    make: Callable[[Location, TableDefinition, CreateMode], None],
    mode: CreateMode,
    rows: DataFrame,
    path: str,
    ask: SaveRequest,
    settings: SessionSettings,
) -> DeltaTableBuilder[None]:
    """The table that rows and what is asked beside them describe."""
    schema = spark_struct(nullable(spark_to_struct(rows.schema)).fields)  # a frame demands nothing of rows to come
    builder = DeltaTableBuilder(make, mode).location(path, storage_options=ask.options.storage()).addColumns(schema)
    given = {name: value for name, value in ask.options.items() if name.lower().startswith(("delta.", PLAIN))}
    for name, value in {**settings.properties, **given, **dict(ask.properties)}.items():
        builder = builder.property(name, value)
    if ask.partitions:
        builder = builder.partitionedBy(*ask.partitions)
    if ask.clustering:
        builder = builder.clusterBy(*ask.clustering)
    return builder if ask.comment is None else builder.comment(ask.comment)


def _made_of(
    rows: DataFrame,
    ask: SaveRequest,
    settings: SessionSettings,
    by_path: bool,
    location: Location,
    shape: TableDefinition,
    mode: CreateMode,
) -> None:
    env, (definition, plain) = system(), without_plain(shape)
    told = {
        "mode": {"error": "ErrorIfExists"}.get(ask.mode, ask.mode.capitalize()),
        "partitionBy": _listed(ask.partitions),
    }
    create_with(
        location,
        definition,
        rows_of(rows, env, zone_of(rows.sparkSession)),
        env,
        mode=mode,
        options=said_of(ask.options, settings),
        plain=plain,
        operation="WRITE" if by_path else None,
        parameters=told if by_path else None,
        stored_as=_stored_as(ask.options),
    )


def _enter(
    rows: DataFrame, parts: Sequence[str], ask: SaveRequest, settings: SessionSettings, mode: CreateMode
) -> None:
    """Make a table of rows under a name."""
    spark = rows.sparkSession
    if find(spark, parts) is not None:
        raise dress(Invalid(f"there is a table {'.'.join(parts)} of another format already"), TABLE_EXISTS)
    location = ask.options.get("path")
    if location is not None and DeltaTable.isDeltaTable(spark, f"`{location}`", storage_options=ask.options.storage()):
        raise dress(
            Invalid(f"there is a Delta table at {location} already: append to it, or use another path"), PATH_EXISTS
        )
    entry = enter(spark, parts, location=location, schema=rows.schema, comment=ask.comment)
    try:
        _create(
            rows, location or entry.location, ask, settings, CreateMode.CREATE if mode is CreateMode.REPLACE else mode
        )
    except BaseException:
        forget(spark, parts, if_exists=True)
        raise


def _replace(rows: DataFrame, table: DeltaTable, ask: SaveRequest, settings: SessionSettings) -> None:
    """Put rows and their schema, partitioned otherwise, in the place of a table's."""
    state = table.handle.newest()
    kept = tuple((k, v) for k, v in state.snapshot.properties.items() if k not in dict(ask.properties) and _is_asked(k))
    again = SaveRequest(ask.mode, ask.partitions, ask.clustering, ask.options, (*kept, *ask.properties), ask.comment)
    path = state.snapshot.location.spark_path()
    describe(partial(_made_of, rows, again, settings, True), CreateMode.REPLACE, rows, path, again, settings).execute()


def _is_asked(name: str) -> bool:
    return not name.startswith(
        ("delta.columnMapping.maxColumnId", "delta.rowTracking.", "delta.inCommitTimestampEnablement")
    )


def _rearrange(rows: DataFrame, table: DeltaTable, ask: SaveRequest, settings: SessionSettings) -> None:
    """Put rows of a table in their own place, laid out otherwise."""
    state = table.handle.newest()
    snapshot = state.snapshot
    if ask.mode != "overwrite":
        raise Invalid("dataChange=false is for rows of a table that take their own place: it goes with mode overwrite")
    for option in _OTHER_ROWS:
        if ask.options.get(option) is not None:
            raise Invalid(
                f"{option} is for other rows than the table has, and dataChange=false for the same: choose one"
            )
    if ask.partitions and ask.partitions != snapshot.partition_columns:
        raise Invalid("dataChange=false keeps the partitions of the table: leave partitionBy out")
    frame = ordinary(rows) if snapshot.identity is None else _with_ids(rows, snapshot)
    where = ask.where if ask.where is not None else ask.options.get("replaceWhere")
    said, stored = said_of(ask.options, settings), _stored_as(ask.options)
    rearrange(state, frame, where, system(), zone=table.handle.zone, options=said, stored_as=stored)


def _with_ids(rows: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Rows that were read of a table, with the ids they have there."""
    memory = memory_of(rows)
    if memory is None or memory.pinned.snapshot.location.url != snapshot.location.url:
        raise Unsupported(_LOST)
    if (read := memory.pinned.snapshot.version) != snapshot.version:
        raise Invalid(f"the rows were read at version {read} and the table is at {snapshot.version}: read them again")
    frame = memory.carrying()
    if frame is None:
        raise Unsupported(_LOST)
    return frame


def _write_iceberg(rows: DataFrame, table: IcebergTable, ask: SaveRequest) -> None:
    known = {name.lower(): name for name in KNOWN}
    ignored = [
        known[n] for n in (name.lower() for name, _ in ask.options.items()) if n in known and n != "replacewhere"
    ]
    if ignored:
        raise Unsupported(f"{', '.join(ignored)} is not taken here for an Iceberg table: use the verbs of IcebergTable")
    where = ask.where if ask.where is not None else ask.options.get("replaceWhere")
    if ask.mode == "overwrite":
        table.overwrite(rows, replaceWhere=where, partitionOverwriteMode="dynamic" if ask.dynamic else "static")
    elif where is not None:
        raise Invalid("replaceWhere goes with mode overwrite")
    else:
        table.append(rows)


def _is_dynamic(ask: SaveRequest, settings: SessionSettings, partitioned: bool) -> bool:
    if ask.dynamic is not None:
        return ask.dynamic
    option = ask.options.get("partitionOverwriteMode")
    if option is not None and option.lower() not in ("static", "dynamic"):
        raise Invalid(f"partitionOverwriteMode is static or dynamic, not {option!r}")
    chosen = settings.is_dynamic if option is None else option.lower() == "dynamic"
    return chosen and partitioned


def _stored_as(options: SourceOptions) -> dict[str, str]:
    """What counts for the files of one write."""
    found = {}
    if (codec := options.get("compression")) is not None:
        found[CODEC] = codec
    if (most := options.number("maxRecordsPerFile")) is not None:
        found[FILE_ROWS] = str(most)
    if (gathers := options.get("optimizeWrite")) is not None:
        found[OPTIMIZE_WRITE] = gathers
    return found


def refuse_options(options: SourceOptions) -> None:
    """Refuse options that do not work here."""
    options.refuse_misspelt(KNOWN, "writing a Delta table")
    if not options.flag("dataChange", True):
        raise Invalid("dataChange=false is for rows of a table that take their own place: it goes with mode overwrite")


def _tell_ignored(table: DeltaTable, ask: SaveRequest) -> None:
    """Properties are of new tables; who gives others for one that is there is told where they are set."""
    has = {name.lower(): value for name, value in table.handle.newest().snapshot.properties.items()}
    for name, value in ask.options.items():
        if name.lower().startswith("delta.") and has.get(name.lower()) != value:
            _log.warning("%s=%s counts for a new table: set it with ALTER TABLE or setProperties()", name, value)


def _listed(names: Sequence[str]) -> str:
    return "[" + ",".join(f'"{name}"' for name in names) + "]"
