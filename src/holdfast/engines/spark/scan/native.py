"""Scans a table with Spark's own Parquet reader.

A plan's files fall into lots: those that hide no row are read as they are, those that hide some pass a filter. Each
lot is one native scan, joined with file facts only when something asked for needs them; the lots are united and the
user's condition and columns come last.

1. Hidden rows are left out before the user's condition is evaluated.
2. Comparisons of a column with a literal, which cannot raise, are repeated below that filter: they skip row groups.
   One that a NaN may satisfy is kept from the reader, whose row-group statistics do not know of NaN.
3. Columns carry their logical names and current types; a data file's older, narrower type is widened by the reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.conditions import below
from holdfast.engines.spark.scan import facts
from holdfast.engines.spark.scan.arrow_path import has_connector, scan_by_arrow
from holdfast.engines.spark.scan.broadcast import small_table
from holdfast.engines.spark.scan.equality_deletes import FileOrder, Scan, flagged, in_memory, rows_of, without
from holdfast.engines.spark.scan.file_list import NAMED_AT_MOST, ListedFile, file_number, read_files
from holdfast.engines.spark.scan.footers import Spelling, refuse_nameless, spellings
from holdfast.engines.spark.scan.hive import directories_agree
from holdfast.engines.spark.scan.outputs import all_outputs, logical, needed, outputs_of
from holdfast.engines.spark.scan.placed import Facts, known_of, more_facts, not_parquet, partition_name
from holdfast.engines.spark.scan.scratch import Scratch, scratch_for
from holdfast.engines.spark.types import has_time, named, refuse_time, solid, spark_struct, spark_type
from holdfast.errors import Damaged, MissingFile
from holdfast.model.files import FileTable, may_lose
from holdfast.model.snapshot import GoneByValue, HiddenRows
from holdfast.plan.scan.file_formats import files_text, refuse_formats
from holdfast.plan.scan.request import ScanPlan
from holdfast.predicate.reader_skipping import may_lose_rows
from holdfast.predicate.records import columns_of, conjuncts, is_of_ranges, is_safe_below
from holdfast.rows import columns as names
from holdfast.schema.types import LONG, Field
from holdfast.storage.base import NotFound

_POSITIONS_LIMIT = 1 << 40  # more rows than a Parquet file can hold in practice; a vector beyond is damaged
_LOOKED_UP_AT_MOST = 20_000  # files; beyond, the text of the numbers would weigh on the plan
_NEED_BASE = {names.ROW_ID, names.BASE_ROW_ID}
_NEED_VERSION = {names.ROW_COMMIT_VERSION, names.DEFAULT_ROW_COMMIT_VERSION}
_PER_FILE = _NEED_BASE | _NEED_VERSION | {names.FILE_NUMBER, names.SPEC_ID, names.FILE_SIZE, names.FILE_TIME}
_BLOCKS = {names.FILE_BLOCK_START: facts.BLOCK_START, names.FILE_BLOCK_LENGTH: facts.BLOCK_LENGTH}


@dataclass(frozen=True)
class Lot:
    """Files that are read in one native scan."""

    files: FileTable
    hides: bool  # some file of it hides rows
    spelling: Spelling  # how its files name the table's columns
    gone: tuple[GoneByValue, ...] = ()  # deletes by value that count for some file of it


def scan_frame(spark: SparkSession, plan: ScanPlan, hidden: HiddenRows) -> DataFrame:
    """The rows a plan asks for."""
    refuse_formats(plan)
    plan = _respelled(spark, plan)
    refuse_time(spark, needed(plan))
    scratch, rows_to_delete = scratch_for(plan.snapshot.location), partial(_rows_to_delete, spark)
    if not len(plan.files):
        df = spark.createDataFrame([], spark_struct(all_outputs(plan)))
    elif _is_native(spark, plan):
        df = _NativeScan(spark, plan, hidden, scratch, rows_to_delete).frame()
    else:
        full = replace(plan, columns=needed(plan))
        gone = tuple(in_memory(spark, g, rows_to_delete, scratch) for g in hidden.by_value)
        df = scan_by_arrow(spark, full, hidden, outputs_of(full), gone)
    if plan.where is not None:
        df = df.where(plan.where.source)
    if plan.columns == plan.snapshot.schema.fields:
        return df
    return df.select(*(named(f.name) for f in outputs_of(plan)))


def describe(spark: SparkSession, plan: ScanPlan) -> tuple[str, ...]:
    """How the plan would be read."""
    refuse_formats(plan)
    if not len(plan.files):
        return ("nothing: no file can hold a row that is asked for",)
    plan = _respelled(spark, plan)
    if not _is_native(spark, plan):
        store = plan.snapshot.location.spark_store()
        return (f"by Arrow inside Spark tasks, because Spark has no file system for {store}: slower",)
    hiding = pc.sum(pc.is_valid(plan.files.column("dv"))).as_py()
    plain = len(plan.files) - hiding
    ways = [f"{files_text(plain)} plainly"] if plain else []
    ways += [f"{files_text(hiding)} through a filter of hidden rows"] if hiding else []
    if other := not_parquet(plan):
        ways.append(f"{files_text(other)} of these, no Parquet, by Arrow inside tasks")
    return (f"by Spark's own Parquet reader: {' and '.join(ways)}",)


def _rows_to_delete(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    return scan_frame(spark, plan, HiddenRows())


def _is_native(spark: SparkSession, plan: ScanPlan) -> bool:
    """Whether Spark has a file system for every store the planned files are in."""
    location = plan.snapshot.location
    keys = plan.files.column("key")
    full = keys.filter(pc.match_substring(keys, "://"))  # only files outside the table's directory
    stores = {location.spark_store(key) for key in full.to_pylist()}
    return all(has_connector(spark, url) for url in {location.spark_store(), *stores})


def _respelled(spark: SparkSession, plan: ScanPlan) -> ScanPlan:
    """The plan in a spelling of its store that Spark has a file system for, where rows do not show that spelling.

    Iceberg's metadata names a bucket `s3://` whatever Spark's connector calls it, and what it says is shown.
    """
    location = plan.snapshot.location
    if plan.snapshot.placement is None or has_connector(spark, location.spark_store()):
        return plan
    others = (one for one in location.spellings() if has_connector(spark, one.spark_store()))
    return replace(plan, snapshot=replace(plan.snapshot, location=next(others, location)))


@dataclass(frozen=True)
class _NativeScan:
    spark: SparkSession
    plan: ScanPlan
    hidden: HiddenRows
    scratch: Scratch
    rows_to_delete: Scan

    def frame(self) -> DataFrame:
        """All columns of the table and the metadata columns, so that a condition may use any; Spark reads the used.

        Where some files are read by Arrow, only the columns that are needed.
        """
        lots = list(self._lots())
        if not any(lot.spelling.by_arrow for lot in lots):
            return reduce(DataFrame.unionAll, [self._lot(lot) for lot in lots])
        full = replace(self.plan, columns=needed(self.plan))
        outputs = [named(f.name) for f in outputs_of(full)]
        frames = [
            self._by_arrow(replace(full, files=lot.files), lot)
            if lot.spelling.by_arrow
            else self._lot(lot).select(*outputs)
            for lot in lots
        ]
        return reduce(DataFrame.unionAll, frames)

    def _by_arrow(self, plan: ScanPlan, lot: Lot) -> DataFrame:
        gone = tuple(in_memory(self.spark, g, self.rows_to_delete, self.scratch) for g in lot.gone)
        return scan_by_arrow(self.spark, plan, self.hidden, outputs_of(plan), gone)

    def _lots(self) -> Iterator[Lot]:
        """Files apart by whether they hide rows, whether they lose some by value, and how they name columns."""
        files = self.plan.files
        hides = pc.is_valid(files.column("dv")).to_numpy()
        loses = may_lose(files).to_numpy(zero_copy_only=False) & bool(self.hidden.by_value)
        native = np.ones(len(files), np.bool_)
        if self.plan.snapshot.placement is not None:
            native = pc.equal(files.column("format"), "parquet").to_numpy()
            if self._is_beyond_spark():
                native[:] = False
        for hiding, losing in ((False, False), (True, False), (False, True), (True, True)):
            alike = (hides == hiding) & (loses == losing)
            gone_here = self.hidden.by_value if losing else ()
            if (alike & native).any():
                part = files.filter(pa.array(alike & native))
                more, reads = self._compared(gone_here), bool(gone_here) or self._reads_columns()
                for spelling, same in spellings(self.spark, self.plan.snapshot, part, more, reads_columns=reads):
                    yield Lot(same, hiding, spelling, gone_here)
            if (alike & ~native).any():
                rest = files.filter(pa.array(alike & ~native))
                refuse_nameless(self.plan.snapshot, rest)
                yield Lot(rest, hiding, Spelling(by_arrow=True), gone_here)

    def _is_beyond_spark(self) -> bool:
        """Whether Spark's reader has no type for a column, or takes two for one because it minds no case."""
        fields = self.plan.snapshot.schema.fields
        clashes = len({f.name.lower() for f in fields}) < len(fields)
        minds_case = self.spark.conf.get("spark.sql.caseSensitive", "false") == "true"
        return (clashes and not minds_case) or any(has_time(f.type) for f in fields)

    def _reads_columns(self) -> bool:
        """Whether something is wanted that data files store; otherwise it is all the same how they call it."""
        partition = set(self.plan.snapshot.partition_columns)
        ids = len(self._stored_fields()) > sum(f.name not in partition for f in self.plan.snapshot.schema.fields)
        return ids or any(f.name not in partition for f in needed(self.plan))

    def _compared(self, gone: tuple[GoneByValue, ...]) -> list[Field]:
        """Columns that are read only to be compared, because the table has them no more."""
        own = {f.field_id for f in self.plan.snapshot.schema.fields}
        fields = {f.field_id: f for g in gone for f in g.deletes.schema.fields if f.field_id not in own}
        return list(fields.values())

    def _lot(self, lot: Lot) -> DataFrame:
        location = self.plan.snapshot.location
        hive = directories_agree(location, lot.files, self.plan.partition_fields)
        table = self._facts(lot, hive)
        metadata = self.plan.metadata.outputs.keys()
        numbered = self.scratch.is_free and (table is not None or bool(metadata & _PER_FILE) or bool(lot.gone))
        stored = [f for f in map(solid, (*self._stored_fields(), *self._compared(lot.gone))) if f is not None]
        read_as = [Field(lot.spelling.top(f), lot.spelling.type(f)) for f in stored]
        if hive:
            read_as += [Field(f.physical_name, f.type) for f in self.plan.partition_fields]
        # Asked for as a column, positions cost no struct per row, as a second field of `_metadata` would.
        indexed = lot.hides or bool(metadata & {names.ROW_ID, names.ROW_INDEX})
        index = [Field(facts.STORED_INDEX, LONG)] if indexed else []
        df = read_files(
            self.spark,
            self._listed(lot.files),
            spark_struct([*index, *read_as]),
            self.scratch,
            hive=hive,
            numbered=numbered,
            # Spark makes a set of every dictionary it looks into, which for a key takes longer than reading it.
            dictionaries=self.plan.where is None or not is_of_ranges(self.plan.where.predicate),
        )

        source = df.metadataColumn("_metadata")
        extra = [file_number(source).alias(facts.NUMBER)] if numbered else []
        shows_path = names.FILE in metadata and self.plan.snapshot.placement is None
        if shows_path or (table is not None and not numbered):
            extra.append(source["file_path"].alias(facts.PATH))
        extra += [source[name.removeprefix("_")].alias(_BLOCKS[name]) for name in _BLOCKS if name in metadata]
        extra += [F.col(facts.STORED_INDEX).alias(facts.INDEX)] if indexed else []
        if extra:
            df = df.select(*(named(f.name) for f in read_as), *extra)
        live_only = lot.hides and names.DELETED not in metadata
        keeps_from_reader = not live_only and self.plan.may_lose_rows(lot.files)
        if lot.hides or keeps_from_reader:
            df = self._skip_row_groups(df, lot)
        if table is not None:
            types = {name: type_ for name, (_, type_) in self._more_facts(lot, hive).items()}
            joined = small_table(self.spark, table, facts.facts_schema(table, types), self.scratch)
            df = df.join(F.broadcast(joined), facts.row_key(numbered=numbered) == F.col(facts.KEY), "left")
        if live_only:
            df = df.where(facts.is_live(numbered=numbered))
        if lot.gone:
            df = self._without_gone(df, lot, numbered)
        if keeps_from_reader:
            df = df.where(facts.barrier())
        if not self.plan.metadata and self._is_as_read(lot, read_as):
            return df
        return df.select(*self._outputs(lot, hive, numbered))

    def _without_gone(self, df: DataFrame, lot: Lot, numbered: bool) -> DataFrame:
        """The rows that no delete takes by value; or all, each with whether one does."""
        own = {f.field_id: f for f in self.plan.snapshot.schema.fields}
        place = FileOrder(
            self._per_file(lot, facts.SEQUENCE, "sequence", numbered),
            self._per_file(lot, facts.GROUP, "group", numbered),
        )
        flags = []
        for i, gone in enumerate(lot.gone):
            rows = rows_of(self.spark, gone, self.rows_to_delete, self.scratch)
            values = [logical(own.get(f.field_id, f), lot.spelling) for f in gone.deletes.schema.fields]
            if names.DELETED in self.plan.metadata.outputs:
                flags.append(f"{facts.GONE}_{i}")
                df = flagged(df, gone, rows, values, place, flags[-1])
            else:
                df = without(df, gone, rows, values, place)
        if flags:
            return df.withColumn(facts.GONE, reduce(Column.__or__, map(named, flags)))
        return df.where(facts.barrier())

    def _is_as_read(self, lot: Lot, read_as: list[Field]) -> bool:
        """Whether the columns that are read are the table's own: all there, in order, by name and type."""
        fields = self.plan.snapshot.schema.fields
        return (
            not lot.hides
            and not lot.gone
            and [f.name for f in read_as] == [f.name for f in fields]
            and not any(lot.spelling.defaults(f) for f in fields)
            and all(spark_type(a.type) == spark_type(b.type) for a, b in zip(read_as, fields, strict=True))
        )

    def _stored_fields(self) -> tuple[Field, ...]:
        """The columns that data files hold: all but the partition columns, and ids where they are asked for."""
        partition = set(self.plan.snapshot.partition_columns)
        fields = [f for f in self.plan.snapshot.schema.fields if f.name not in partition]
        identity = self.plan.snapshot.identity
        if identity is not None:
            if identity.id_stored is not None and names.ROW_ID in self.plan.metadata.outputs:
                fields.append(identity.id_stored)
            if identity.version_stored is not None and names.ROW_COMMIT_VERSION in self.plan.metadata.outputs:
                fields.append(identity.version_stored)
        return tuple(fields)

    def _listed(self, files: FileTable) -> list[ListedFile]:
        """The files as Spark must see them; a few are looked at first, because Spark skips what is empty."""
        location = self.plan.snapshot.location
        keys = files.column("key").to_pylist()  # bounded by the number of files, as all that follows
        sizes = dict(zip(keys, files.column("size").to_pylist(), strict=True))
        if len(keys) <= NAMED_AT_MOST:
            inside = [k for k in keys if "://" not in k or k.startswith(location.store.url + "/")]
            with ThreadPoolExecutor(max_workers=8) as pool:
                sizes |= zip(inside, pool.map(self._look, inside), strict=True)
        uris = location.spark_uris(files.column("key").combine_chunks()).to_pylist()
        return [
            ListedFile(uri, location.spark_path(key), sizes[key], modified or 0)
            for key, uri, modified in zip(keys, uris, files.column("modified_ms").to_pylist(), strict=True)
        ]

    def _look(self, key: str) -> int:
        """The size of a file; what the table says of it may be wrong, and Spark would believe it."""
        location = self.plan.snapshot.location
        url = location.file_url(key)
        try:
            stored = location.store.head(location.store_key(key))
        except NotFound as error:
            raise MissingFile(f"{url} is not there, but the table refers to it; restore it", path=url) from error
        if stored.size == 0:
            raise Damaged(f"{url} is empty, which is no Parquet file; restore it", path=url, found="0 bytes")
        return stored.size

    def _facts(self, lot: Lot, hive: bool) -> pa.Table | None:
        """What the rows of this lot must be told of their files; None when nothing."""
        metadata = self.plan.metadata.outputs.keys()
        files = lot.files.table
        more = self._more_facts(lot, hive)
        joins_ids = bool(metadata & _PER_FILE) and not self._looks_up_ids(lot)
        if not (lot.hides or more or joins_ids):
            return None
        location = self.plan.snapshot.location
        keys = files.column("key").to_pylist()
        numbers = np.arange(len(keys)) if self.scratch.is_free else facts.hashed(list(map(location.spark_uri, keys)))
        return facts.facts_table(
            numbers,
            base=known_of(self.plan, files, "base_row_id") if joins_ids and metadata & _NEED_BASE else None,
            version=known_of(self.plan, files, "default_row_commit_version")
            if joins_ids and metadata & _NEED_VERSION
            else None,
            place=self._places(lot) if joins_ids and names.FILE_NUMBER in metadata else None,
            more={name: values for name, (values, _) in more.items()},
            hidden=[self._positions(key) for key in keys] if lot.hides else None,
        )

    def _more_facts(self, lot: Lot, hive: bool) -> Facts:
        return more_facts(self.plan, lot.files, hive=hive, loses=bool(lot.gone), looks_up=self._looks_up_ids(lot))

    def _looks_up_ids(self, lot: Lot) -> bool:
        """Whether base ids and versions are few enough to be looked up by file number, without a join."""
        return self.scratch.is_free and len(lot.files) <= _LOOKED_UP_AT_MOST

    def _positions(self, key: str) -> BitMap64:
        bitmap = self.hidden.positions[key]
        if bitmap and bitmap.max() >= _POSITIONS_LIMIT:
            raise Damaged(f"the deletion vector of {key} hides row {bitmap.max()}, which no file has", path=key)
        return bitmap

    def _skip_row_groups(self, df: DataFrame, lot: Lot) -> DataFrame:
        if self.plan.where is None:
            return df
        defaulted = {f.name for f in self._stored_fields() if lot.spelling.defaults(f)}
        stored = [f for f in self._stored_fields() if solid(f) is not None and f.name not in defaulted]
        tops = {f.name: lot.spelling.top(f) for f in stored if f in self.plan.snapshot.schema.fields}  # no stored ids
        for part in conjuncts(self.plan.where.predicate):
            safe = is_safe_below(part) and not may_lose_rows(part, self.plan.snapshot.schema)
            if safe and all(column[0] in tops for column in columns_of(part)):
                df = df.where(below(part, lambda name: named(tops[name])))
        return df

    def _outputs(self, lot: Lot, hive: bool, numbered: bool) -> list[Column]:
        positions = {name: i for i, name in enumerate(self.plan.snapshot.partition_columns)}
        columns = []
        for f in self.plan.snapshot.schema.fields:
            if f.name in positions:
                columns.append(self._partition_value(f, positions[f.name], hive, numbered).alias(f.name))
            else:
                columns.append(logical(f, lot.spelling).alias(f.name))
        metadata = self.plan.metadata.outputs.items()
        return [*columns, *(self._metadata(name, lot, hive, numbered).alias(out) for name, out in metadata)]

    def _partition_value(self, f: Field, position: int, hive: bool, numbered: bool) -> Column:
        return named(f.physical_name) if hive else facts.known(partition_name(position), numbered=numbered)

    def _places(self, lot: Lot) -> pa.Array:
        """The numbers that the files of a lot have in the plan."""
        return (
            pc.index_in(lot.files.column("key"), value_set=self.plan.files.column("key")).combine_chunks().cast("int64")
        )

    def _per_file(self, lot: Lot, joined: str, fact: str, numbered: bool) -> Column:
        """A number of a row's file: looked up, or joined."""
        if self._looks_up_ids(lot):
            values = self._places(lot) if fact == names.FILE_NUMBER else known_of(self.plan, lot.files.table, fact)
            return facts.by_number(values)
        return facts.known(joined, numbered=numbered)

    def _metadata(self, name: str, lot: Lot, hive: bool, numbered: bool) -> Column:
        identity = self.plan.snapshot.identity
        match name:
            case names.FILE:
                if self.plan.snapshot.placement is None:
                    return F.col(facts.PATH)
                return facts.known(facts.SHOWN, numbered=numbered)
            case names.FILE_SIZE:
                return self._per_file(lot, facts.SIZE, "size", numbered)
            case names.FILE_TIME:
                return F.timestamp_millis(self._per_file(lot, facts.MODIFIED, "modified_ms", numbered))
            case names.FILE_BLOCK_START | names.FILE_BLOCK_LENGTH:
                return F.col(_BLOCKS[name])
            case names.SPEC_ID:
                return self._per_file(lot, facts.SPEC, "spec_id", numbered).cast("int")
            case names.DELETED:
                gone = F.col(facts.GONE) if lot.gone else F.lit(False)
                return facts.is_hidden(numbered=numbered) | gone if lot.hides else gone
            case names.ROW_INDEX:
                return facts.position()
            case names.PARTITION:
                placement = self.plan.snapshot.placement
                fields = self.plan.partition_fields if placement is None else placement.tuple_type.fields
                if not fields:
                    return F.struct() if placement is None else F.lit(None).cast(spark_type(placement.tuple_type))
                values = [self._partition_value(f, i, hive, numbered).alias(f.name) for i, f in enumerate(fields)]
                return F.struct(*values)
            case names.FILE_NUMBER:
                return self._per_file(lot, facts.PLACE, names.FILE_NUMBER, numbered)
            case names.BASE_ROW_ID:
                return self._per_file(lot, facts.BASE, "base_row_id", numbered)
            case names.DEFAULT_ROW_COMMIT_VERSION:
                return self._per_file(lot, facts.VERSION, "default_row_commit_version", numbered)
        assert identity is not None, "a plan asks for row ids only where rows are tracked"
        if name == names.ROW_ID:
            base = self._per_file(lot, facts.BASE, "base_row_id", numbered)
            fresh, stored = base + facts.position(), identity.id_stored
        else:
            fresh = base = self._per_file(lot, facts.VERSION, "default_row_commit_version", numbered)
            stored = identity.version_stored
        if stored is None:
            return fresh
        value = F.coalesce(named(lot.spelling.top(stored)), fresh)
        return F.when(base.isNotNull(), value) if identity.has_gaps else value
