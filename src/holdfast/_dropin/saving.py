"""`save`, `saveAsTable`, `insertInto` and `writeTo`: write rows to a table, which they create where there is none.

    find the table  ->  interpret mode and options  ->  one commit

1. A new table gets its rows in the commit that creates it.
2. Every option of Delta's works or is refused by its name; other options are left to Spark, as in delta-spark.
3. A new table's catalog entry comes before the first commit, and is removed again where the commit fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from holdfast._dropin.errors import PATH_EXISTS, TABLE_EXISTS, TABLE_NOT_FOUND, as_delta_spark, dress
from holdfast._dropin.frames import ordinary, query_of
from holdfast._dropin.options import SourceOptions
from holdfast._dropin.rearrange import rearrange
from holdfast.engines.spark.session.catalog import enter, find, forget, split
from holdfast.engines.spark.types import spark_struct, spark_to_struct
from holdfast.env import system
from holdfast.errors import Invalid, NotATable, Unsupported
from holdfast.model.mutation import AppVersion, TableDefinition
from holdfast.model.snapshot import Snapshot
from holdfast.model.write_spec import CODEC, FILE_ROWS
from holdfast.schema.properties import OPTIMIZE_WRITE, truth
from holdfast.sql.resolver import TableResolver, as_delta, path_of
from holdfast.sql.settings import SessionSettings, settings_of
from holdfast.storage.location import Location
from holdfast.table.delta import DeltaTable
from holdfast.table.table import Table
from holdfast.verbs.define.builder import PLAIN, CreateMode, DeltaTableBuilder, without_plain
from holdfast.verbs.define.create import create_with
from holdfast.verbs.dml.replace_matched import Met
from holdfast.verbs.dml.verbs import write
from holdfast.verbs.dml.write import WriteOptions
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.open.engine import rows_of, zone_of
from holdfast.verbs.stream.follow import nullable

OPTIONS = (
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
    """The mode, layout and options of a write."""

    mode: str = "error"
    partitions: tuple[str, ...] = ()
    clustering: tuple[str, ...] = ()
    options: SourceOptions = field(default_factory=SourceOptions)
    properties: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    where: str | None = None  # the condition of the rows to replace
    dynamic: bool | None = None  # replace the partitions that the rows have; None: as option and setting say

    @property
    def replaced_rows(self) -> str | None:
        """The condition of the rows to replace, from `where` or the option."""
        return self.where if self.where is not None else self.options.get("replaceWhere")


def mode_of(mode: str | None) -> str:
    """A save mode by its one name."""
    name = _MODES.get((mode or "error").lower())
    if name is None:
        raise Invalid(f"{mode!r} is no save mode: there are append, overwrite, error, errorifexists and ignore")
    return name


def save(rows: DataFrame, path: str, request: SaveRequest) -> None:
    """Write rows to the table at a path."""
    with as_delta_spark():
        spark = rows.sparkSession
        if not DeltaTable.isDeltaTable(spark, f"`{path}`", storage_options=request.options.storage()):
            _create(rows, path, request, settings_of(spark), CreateMode.CREATE, by_path=True)
        elif request.mode == "error":
            raise dress(
                Invalid(f"there is a Delta table at {path} already: use another mode, such as append"), PATH_EXISTS
            )
        elif request.mode != "ignore":
            table = DeltaTable.forPath(spark, path, storage_options=request.options.storage())
            write_into(rows, table, request)


def save_as_table(rows: DataFrame, name: str, request: SaveRequest, resolver: TableResolver) -> None:
    """Write rows to the table of a name, which is created where there is none."""
    with as_delta_spark():
        spark, parts = rows.sparkSession, split(name)
        if (path := path_of(parts)) is not None:
            return save(rows, path, request)
        resolved = resolver.table(spark, parts)
        if resolved is None:
            return _enter(rows, parts, request, settings_of(spark), CreateMode.CREATE)
        if request.mode == "error":
            raise dress(Invalid(f"there is a table {name} already: use another mode, such as append"), TABLE_EXISTS)
        if request.mode != "ignore":
            write_into(rows, resolved.table, request)
    return None


def create_table(rows: DataFrame, name: str, request: SaveRequest, resolver: TableResolver, mode: CreateMode) -> None:
    """Create or replace the table of a name with these rows."""
    with as_delta_spark():
        spark, parts, settings = rows.sparkSession, split(name), settings_of(rows.sparkSession)
        if (path := path_of(parts)) is not None:
            return _create(rows, path, request, settings, mode)
        resolved = resolver.table(spark, parts)
        if resolved is None and mode is CreateMode.REPLACE:
            raise dress(NotATable(f"there is no table {name} to replace: use create", location=name), TABLE_NOT_FOUND)
        if resolved is None:
            return _enter(rows, parts, request, settings, mode)
        if mode is CreateMode.CREATE:
            raise dress(Invalid(f"there is a table {name} already: append to it, or use createOrReplace"), TABLE_EXISTS)
        if resolved.entry is None:
            raise Unsupported(f"{name} is registered with Holdfast and cannot be replaced by name: use its own verbs")
        return _create(rows, resolved.entry.location, request, settings, mode)


def table_named(spark: SparkSession, name: str, resolver: TableResolver) -> Table:
    """The table of a name."""
    resolved = resolver.table(spark, split(name))
    if resolved is None:
        raise dress(NotATable(f"there is no Delta table {name} in this session", location=name), TABLE_NOT_FOUND)
    return resolved.table


def insert_into(rows: DataFrame, name: str, request: SaveRequest, resolver: TableResolver) -> None:
    """Write rows to the table of a name; columns match by position."""
    with as_delta_spark():
        table = table_named(rows.sparkSession, name, resolver)
        columns = table.handle.newest().snapshot.schema.names
        if len(columns) != len(rows.columns):
            raise Invalid(
                f"insertInto goes by position: {name} has {len(columns)} columns ({', '.join(columns)}) and the rows "
                f"have {len(rows.columns)}"
            )
        if as_delta(table) is None and request.options.get("replaceWhere") is None:  # as Spark does; `save` does not
            settings = settings_of(rows.sparkSession)
            request = replace(request, dynamic=_is_dynamic(request, settings, table.handle.is_partitioned()))
        write_into(ordinary(rows).toDF(*columns), table, request)


def write_into(rows: DataFrame, table: Table, request: SaveRequest) -> None:
    """Append to a table, or overwrite it."""
    delta = as_delta(table)
    if delta is None:
        _write_iceberg(ordinary(rows), table, request)
    else:
        _write_delta(rows, delta, request)


def _write_delta(rows: DataFrame, table: DeltaTable, request: SaveRequest) -> None:
    settings = settings_of(rows.sparkSession)
    if not request.options.flag("dataChange", True):
        return _rearrange(rows, table, request, settings)
    rows = ordinary(rows)
    refuse_options(request.options)
    snapshot = table.handle.newest().snapshot
    replaces_schema = request.mode == "overwrite" and request.options.flag("overwriteSchema")
    where = request.replaced_rows
    if request.partitions and request.partitions != snapshot.partition_columns and not replaces_schema:
        raise Invalid(
            f"the table is partitioned by {', '.join(snapshot.partition_columns) or 'nothing'}, not by "
            f"{', '.join(request.partitions)}: leave partitionBy out, or overwrite with overwriteSchema=true"
        ).named("DELTA_METADATA_MISMATCH")
    merges = request.options.flag("mergeSchema", settings.merges_schema)
    dynamic = (
        request.mode == "overwrite"
        and where is None
        and _is_dynamic(request, settings, bool(snapshot.partition_columns))
    )
    if request.mode != "overwrite" and request.options.get("replaceWhere") is not None:
        raise Invalid("replaceWhere goes with mode overwrite")
    if replaces_schema and (where is not None or (dynamic and request.options.get("partitionOverwriteMode"))):
        raise Invalid("overwriteSchema replaces the whole table: leave replaceWhere and dynamic mode out")
    matched = _matched(request)
    if replaces_schema and request.partitions != snapshot.partition_columns and matched == Met():
        return _replace(rows, table, request, settings)
    _warn_ignored(table, request)
    how = WriteOptions(
        replace=request.mode == "overwrite",
        replace_where=where,
        zone=table.handle.zone,
        dynamic=dynamic and not replaces_schema,
        add_columns=merges and not replaces_schema,
        widen_types=merges and not replaces_schema and truth(snapshot.properties.get("delta.enableTypeWidening")),
        replace_schema=replaces_schema,
        commit_options=commit_options(request.options, settings),
        stored_as=_stored_as(request.options),
    )
    write(table.handle, rows, how, table.handle.caller(), matched)
    return None


def _matched(request: SaveRequest) -> Met:
    """How the rows match those that they replace."""
    using, on, alias = (request.options.get(name) for name in ("replaceUsing", "replaceOn", "targetAlias"))
    if request.mode != "overwrite" and (using is not None or on is not None):
        raise Invalid(f"{'replaceOn' if using is None else 'replaceUsing'} goes with mode overwrite")
    if alias is not None and on is None:
        raise Invalid("targetAlias goes with replaceOn: it is what the condition calls the table")
    return Met(using, on, alias)


def commit_options(options: SourceOptions, settings: SessionSettings) -> CommitOptions:
    """The application version and the user metadata of a write."""
    app, version = (options.get(name) or settings.txn(name) for name in ("txnAppId", "txnVersion"))
    if (app is None) != (version is None):
        wrong = Invalid("txnAppId and txnVersion go together: give both, or none")
        raise wrong.named("DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS")
    if version is not None and not version.lstrip("-").isdigit():
        raise Invalid(f"txnVersion is a whole number, not {version!r}")
    app_version = None if app is None or version is None else AppVersion(app, int(version))
    return CommitOptions(app_version, options.get("userMetadata") or settings.user_metadata)


def _create(
    rows: DataFrame,
    path: str,
    request: SaveRequest,
    settings: SessionSettings,
    mode: CreateMode,
    *,
    by_path: bool = False,
) -> None:
    """Create a table of rows at a path."""
    refuse_options(request.options)
    _matched(request)
    rows = ordinary(rows)
    describe(partial(_create_with, rows, request, settings, by_path), mode, rows, path, request, settings).execute()


def describe(
    make: Callable[[Location, TableDefinition, CreateMode], None],
    mode: CreateMode,
    rows: DataFrame,
    path: str,
    request: SaveRequest,
    settings: SessionSettings,
) -> DeltaTableBuilder[None]:
    """The builder of a table for rows, with the layout and properties of a request."""
    schema = spark_struct(nullable(spark_to_struct(rows.schema)).fields)  # a frame's NOT NULL does not bind later rows
    builder = DeltaTableBuilder(make, mode).location(path, storage_options=request.options.storage()).addColumns(schema)
    properties = {name: value for name, value in request.options.items() if name.lower().startswith(("delta.", PLAIN))}
    for name, value in {**settings.properties, **properties, **dict(request.properties)}.items():
        builder = builder.property(name, value)
    if request.partitions:
        builder = builder.partitionedBy(*request.partitions)
    if request.clustering:
        builder = builder.clusterBy(*request.clustering)
    return builder if request.comment is None else builder.comment(request.comment)


def _create_with(
    rows: DataFrame,
    request: SaveRequest,
    settings: SessionSettings,
    by_path: bool,
    location: Location,
    shape: TableDefinition,
    mode: CreateMode,
) -> None:
    env, (definition, plain) = system(), without_plain(shape)
    parameters = {
        "mode": {"error": "ErrorIfExists"}.get(request.mode, request.mode.capitalize()),
        "partitionBy": _listed(request.partitions),
    }
    create_with(
        location,
        definition,
        rows_of(rows, env, zone_of(rows.sparkSession)),
        env,
        mode=mode,
        options=commit_options(request.options, settings),
        plain=plain,
        operation="WRITE" if by_path else None,
        parameters=parameters if by_path else None,
        stored_as=_stored_as(request.options),
    )


def _enter(
    rows: DataFrame, parts: Sequence[str], request: SaveRequest, settings: SessionSettings, mode: CreateMode
) -> None:
    """Create a table of rows under a name."""
    spark = rows.sparkSession
    if find(spark, parts) is not None:
        raise dress(Invalid(f"there is a table {'.'.join(parts)} of another format already"), TABLE_EXISTS)
    location = request.options.get("path")
    if location is not None and DeltaTable.isDeltaTable(
        spark, f"`{location}`", storage_options=request.options.storage()
    ):
        raise dress(
            Invalid(f"there is a Delta table at {location} already: append to it, or use another path"), PATH_EXISTS
        )
    entry = enter(spark, parts, location=location, schema=rows.schema, comment=request.comment)
    try:
        _create(
            rows,
            location or entry.location,
            request,
            settings,
            CreateMode.CREATE if mode is CreateMode.REPLACE else mode,
        )
    except BaseException:
        forget(spark, parts, if_exists=True)
        raise


def _replace(rows: DataFrame, table: DeltaTable, request: SaveRequest, settings: SessionSettings) -> None:
    """Replace a table's rows, schema and partitioning."""
    state = table.handle.newest()
    kept = tuple(
        (k, v) for k, v in state.snapshot.properties.items() if k not in dict(request.properties) and _is_users(k)
    )
    request = replace(request, properties=(*kept, *request.properties), where=None, dynamic=None)
    path = state.snapshot.location.spark_path()
    describe(
        partial(_create_with, rows, request, settings, True), CreateMode.REPLACE, rows, path, request, settings
    ).execute()


def _is_users(name: str) -> bool:
    return not name.startswith(
        ("delta.columnMapping.maxColumnId", "delta.rowTracking.", "delta.inCommitTimestampEnablement")
    )


def _rearrange(rows: DataFrame, table: DeltaTable, request: SaveRequest, settings: SessionSettings) -> None:
    """Write rows of a table again in another layout."""
    state = table.handle.newest()
    snapshot = state.snapshot
    if request.mode != "overwrite":
        raise Invalid("dataChange=false is for rows of a table that take their own place: it goes with mode overwrite")
    for option in _OTHER_ROWS:
        if request.options.get(option) is not None:
            raise Invalid(
                f"{option} is for other rows than the table has, and dataChange=false for the same: choose one"
            )
    if request.partitions and request.partitions != snapshot.partition_columns:
        raise Invalid("dataChange=false keeps the partitions of the table: leave partitionBy out")
    frame = ordinary(rows) if snapshot.identity is None else _with_ids(rows, snapshot)
    where = request.replaced_rows
    options, stored_as = commit_options(request.options, settings), _stored_as(request.options)
    rearrange(state, frame, where, system(), zone=table.handle.zone, options=options, stored_as=stored_as)


def _with_ids(rows: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Rows that were read from a table, with their ids."""
    query = query_of(rows)
    if query is None or query.pinned.snapshot.location.url != snapshot.location.url:
        raise Unsupported(_LOST)
    if (read := query.pinned.snapshot.version) != snapshot.version:
        raise Invalid(f"the rows were read at version {read} and the table is at {snapshot.version}: read them again")
    frame = query.frame_with_ids()
    if frame is None:
        raise Unsupported(_LOST)
    return frame


def _write_iceberg(rows: DataFrame, table: Table, request: SaveRequest) -> None:
    names = {name.lower(): name for name in OPTIONS if name != "replaceWhere"}
    ignored = [names[name.lower()] for name, _ in request.options.items() if name.lower() in names]
    if ignored:
        raise Unsupported(f"{', '.join(ignored)} is not taken here for an Iceberg table: use the verbs of IcebergTable")
    where = request.replaced_rows
    if request.mode == "overwrite":
        table.overwrite(rows, replaceWhere=where, partitionOverwriteMode="dynamic" if request.dynamic else "static")
    elif where is not None:
        raise Invalid("replaceWhere goes with mode overwrite")
    else:
        table.append(rows)


def _is_dynamic(request: SaveRequest, settings: SessionSettings, partitioned: bool) -> bool:
    if request.dynamic is not None:
        return request.dynamic
    option = request.options.get("partitionOverwriteMode")
    if option is not None and option.lower() not in ("static", "dynamic"):
        raise Invalid(f"partitionOverwriteMode is static or dynamic, not {option!r}")
    chosen = settings.is_dynamic if option is None else option.lower() == "dynamic"
    return chosen and partitioned


def _stored_as(options: SourceOptions) -> dict[str, str]:
    """The settings of the files of one write."""
    settings = {}
    if (codec := options.get("compression")) is not None:
        settings[CODEC] = codec
    if (rows := options.number("maxRecordsPerFile")) is not None:
        settings[FILE_ROWS] = str(rows)
    if (optimize := options.get("optimizeWrite")) is not None:
        settings[OPTIMIZE_WRITE] = optimize
    return settings


def refuse_options(options: SourceOptions) -> None:
    """Refuse options that do not work here."""
    options.refuse_misspelt(OPTIONS, "writing a Delta table")
    if not options.flag("dataChange", True):
        raise Invalid("dataChange=false is for rows of a table that take their own place: it goes with mode overwrite")


def _warn_ignored(table: DeltaTable, request: SaveRequest) -> None:
    """Warn of options that are properties of new tables and differ from those of this table."""
    properties = {name.lower(): value for name, value in table.handle.newest().snapshot.properties.items()}
    for name, value in request.options.items():
        if name.lower().startswith("delta.") and properties.get(name.lower()) != value:
            _log.warning("%s=%s counts for a new table: set it with ALTER TABLE or setProperties()", name, value)


def _listed(names: Sequence[str]) -> str:
    return "[" + ",".join(f'"{name}"' for name in names) + "]"
