"""Scan a table with Spark's own Parquet reader.

A plan's files fall into lots: those that hide no row are read as they are, those that hide some pass a filter. Each
lot is one native scan, joined with file facts only when something asked for needs them; the lots are united and the
user's condition and columns come last.

1. Hidden rows are gone before any condition of the user's sees them.
2. Comparisons of a column with a literal, which cannot raise, are repeated below that filter: they skip row groups.
   One that a NaN may satisfy is kept from the reader, whose row-group statistics do not know of NaN.
3. Columns carry their logical names and current types; a data file's older, narrower type is widened by the reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.errors import Damaged, MissingFile
from holdfast.model.files import FileTable
from holdfast.model.snapshot import HiddenRows
from holdfast.plan.run import files_text
from holdfast.plan.scan import ScanPlan, metadata_field
from holdfast.predicate.floats import may_find_nan
from holdfast.predicate.records import columns_of, conjuncts, has_opaque, is_of_ranges, is_safe_below
from holdfast.rows import columns as names
from holdfast.schema.partition import column, typed
from holdfast.schema.types import LONG, Field
from holdfast.spark import facts
from holdfast.spark.arrow_path import has_connector, scan_by_arrow
from holdfast.spark.broadcast import small_table
from holdfast.spark.conditions import below
from holdfast.spark.filelist import NAMED_AT_MOST, ListedFile, file_number, read_files
from holdfast.spark.footers import Spelling, spellings
from holdfast.spark.hive import directories_agree
from holdfast.spark.scratch import Scratch, scratch_for
from holdfast.spark.types import has_void, named, spark_struct, spark_type
from holdfast.storage.base import NotFound

_POSITIONS_LIMIT = 1 << 40  # more rows than a Parquet file can hold in practice; a vector beyond is damaged
_LOOKED_UP_AT_MOST = 20_000  # files; beyond, the text of the numbers would weigh on the plan
_NEED_BASE = {names.ROW_ID, names.BASE_ROW_ID}
_NEED_VERSION = {names.ROW_COMMIT_VERSION, names.DEFAULT_ROW_COMMIT_VERSION}
_PER_FILE = _NEED_BASE | _NEED_VERSION | {names.FILE_NUMBER}


@dataclass(frozen=True)
class Lot:
    """Files that are read in one native scan."""

    files: FileTable
    hides: bool  # some file of it hides rows
    spelling: Spelling  # how its files name the table's columns


@dataclass(frozen=True)
class SparkRunner:
    """Runs plans on a Spark session, classic or Connect."""

    spark: SparkSession

    def scan(self, plan: ScanPlan, hidden: HiddenRows) -> DataFrame:
        """The rows a plan asks for."""
        if not len(plan.files):
            df = self.spark.createDataFrame([], spark_struct(_all_outputs(plan)))
        elif self._is_native(plan):
            df = _NativeScan(self.spark, plan, hidden, scratch_for(plan.snapshot.location)).frame()
        else:
            full = replace(plan, columns=_needed(plan))
            df = scan_by_arrow(self.spark, full, hidden, _outputs_of(full))
        if plan.where is not None:
            df = df.where(plan.where.source)
        if plan.columns == plan.snapshot.schema.fields:
            return df
        return df.select(*(named(f.name) for f in _outputs_of(plan)))

    def describe(self, plan: ScanPlan) -> tuple[str, ...]:
        """How the plan would be read."""
        if not len(plan.files):
            return ("nothing: no file can hold a row that is asked for",)
        if not self._is_native(plan):
            store = plan.snapshot.location.spelled or plan.snapshot.location.store.url
            return (f"by Arrow inside Spark tasks, because Spark has no file system for {store}: slower",)
        hiding = pc.sum(pc.is_valid(plan.files.column("dv"))).as_py()
        plain = len(plan.files) - hiding
        ways = [f"{files_text(plain)} plainly"] if plain else []
        ways += [f"{files_text(hiding)} through a filter of hidden rows"] if hiding else []
        return (f"by Spark's own Parquet reader: {' and '.join(ways)}",)

    def _is_native(self, plan: ScanPlan) -> bool:
        """Whether Spark has a file system for every store the planned files are in."""
        location = plan.snapshot.location
        keys = plan.files.column("key")
        full = keys.filter(pc.match_substring(keys, "://"))  # only files outside the table's directory
        stores = {"/".join(key.split("/")[:3]) for key in full.to_pylist()} - {location.store.url}
        return all(has_connector(self.spark, url) for url in (location.spelled or location.store.url, *stores))


@dataclass(frozen=True)
class _NativeScan:
    spark: SparkSession
    plan: ScanPlan
    hidden: HiddenRows
    scratch: Scratch

    def frame(self) -> DataFrame:
        """All columns of the table and the metadata columns, so that a condition may use any; Spark reads the used."""
        return reduce(DataFrame.unionAll, [self._lot(lot) for lot in self._lots()])

    def _lots(self) -> Iterator[Lot]:
        """Files apart by whether they hide rows, and by how they name the table's columns."""
        hides = pc.is_valid(self.plan.files.column("dv")).combine_chunks()
        for mask, hiding in ((pc.invert(hides), False), (hides, True)):
            part = self.plan.files.filter(mask)
            if len(part):
                for spelling, files in spellings(self.spark, self.plan.snapshot, part):
                    yield Lot(files, hiding, spelling)

    def _lot(self, lot: Lot) -> DataFrame:
        location = self.plan.snapshot.location
        hive = directories_agree(location, lot.files, self.plan.partition_fields)
        table = self._facts(lot, hive)
        asked = self.plan.metadata.keys()
        numbered = self.scratch.is_free and (table is not None or bool(asked & _PER_FILE))
        stored = [f for f in self._stored_fields() if not has_void(f.type)]
        read_as = [Field(lot.spelling.top(f), lot.spelling.type(f)) for f in stored]
        if hive:
            read_as += [Field(f.physical_name, f.type) for f in self.plan.partition_fields]
        # Asked for as a column, positions cost no struct per row, as a second field of `_metadata` would.
        indexed = lot.hides or bool(asked & {names.ROW_ID, names.ROW_INDEX})
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
        if names.FILE in asked or (table is not None and not numbered):
            extra.append(source["file_path"].alias(facts.PATH))
        extra += [F.col(facts.STORED_INDEX).alias(facts.INDEX)] if indexed else []
        if extra:
            df = df.select(*(named(f.name) for f in read_as), *extra)
        if lot.hides or self._finds_nan():
            df = self._skip_row_groups(df, lot)
        if table is not None:
            types = {_partition_name(i): f.type for i, f in enumerate(self.plan.partition_fields)}
            joined = small_table(self.spark, table, facts.facts_schema(table, types), self.scratch)
            df = df.join(F.broadcast(joined), facts.row_key(numbered=numbered) == F.col(facts.KEY), "left")
        if lot.hides:
            df = df.where(facts.is_live(numbered=numbered))
        elif self._finds_nan():
            df = df.where(facts.barrier())
        if not self.plan.metadata and self._is_as_read(lot, read_as):
            return df
        return df.select(*self._outputs(lot, hive, numbered))

    def _is_as_read(self, lot: Lot, read_as: list[Field]) -> bool:
        """Whether the columns that are read are the table's own, in order, under their names and of their types."""
        fields = self.plan.snapshot.schema.fields
        return (
            not lot.hides
            and [f.name for f in read_as] == [f.name for f in fields]
            and all(spark_type(a.type) == spark_type(b.type) for a, b in zip(read_as, fields, strict=True))
        )

    def _stored_fields(self) -> tuple[Field, ...]:
        """The columns that data files hold: all but the partition columns, and ids where they are asked for."""
        partition = set(self.plan.snapshot.partition_columns)
        fields = [f for f in self.plan.snapshot.schema.fields if f.name not in partition]
        identity = self.plan.snapshot.identity
        if identity is not None:
            if identity.id_column is not None and names.ROW_ID in self.plan.metadata:
                fields.append(Field(identity.id_column, LONG))
            if identity.version_column is not None and names.ROW_COMMIT_VERSION in self.plan.metadata:
                fields.append(Field(identity.version_column, LONG))
        return tuple(fields)

    def _listed(self, files: FileTable) -> list[ListedFile]:
        """The files as Spark must see them; a few are looked at first, because Spark skips what is empty."""
        location = self.plan.snapshot.location
        keys = files.column("key").to_pylist()  # bounded by the number of files, as all that follows
        if len(keys) <= NAMED_AT_MOST:
            inside = [k for k in keys if "://" not in k or k.startswith(location.store.url + "/")]
            with ThreadPoolExecutor(max_workers=8) as pool:
                list(pool.map(self._look, inside))
        return [
            ListedFile(location.spark_uri(key), location.file_url(key), size, modified or 0)
            for key, size, modified in zip(
                keys, files.column("size").to_pylist(), files.column("modified_ms").to_pylist(), strict=True
            )
        ]

    def _look(self, key: str) -> None:
        location = self.plan.snapshot.location
        url = location.file_url(key)
        try:
            found = location.store.head(location.store_key(key))
        except NotFound as error:
            raise MissingFile(f"{url} is not there, but the table refers to it; restore it", path=url) from error
        if found.size == 0:
            raise Damaged(f"{url} is empty, which is no Parquet file; restore it", path=url, found="0 bytes")

    def _facts(self, lot: Lot, hive: bool) -> pa.Table | None:
        """What the rows of this lot must be told of their files; None when nothing."""
        asked = self.plan.metadata.keys()
        files = lot.files.table
        needs_partition = bool(self.plan.partition_fields) and not hive
        joins_ids = bool(asked & _PER_FILE) and not self._looks_up_ids(lot)
        if not (lot.hides or needs_partition or joins_ids):
            return None
        location = self.plan.snapshot.location
        keys = files.column("key").to_pylist()
        values = files.column("partition_values")
        numbers = np.arange(len(keys)) if self.scratch.is_free else facts.hashed(list(map(location.spark_uri, keys)))
        return facts.facts_table(
            numbers,
            base=_whole(files, "base_row_id") if joins_ids and asked & _NEED_BASE else None,
            version=_whole(files, "default_row_commit_version") if joins_ids and asked & _NEED_VERSION else None,
            place=self._places(lot) if joins_ids and names.FILE_NUMBER in asked else None,
            partition={
                _partition_name(i): typed(column(values, f.physical_name), f.type, where=location.url)
                for i, f in enumerate(self.plan.partition_fields)
            }
            if needs_partition
            else None,
            hidden=[self._positions(key) for key in keys] if lot.hides else None,
        )

    def _looks_up_ids(self, lot: Lot) -> bool:
        """Whether base ids and versions are few enough to be looked up by file number, without a join."""
        return self.scratch.is_free and len(lot.files) <= _LOOKED_UP_AT_MOST

    def _positions(self, key: str) -> BitMap64:
        bitmap = self.hidden.positions[key]
        if bitmap and bitmap.max() >= _POSITIONS_LIMIT:
            raise Damaged(f"the deletion vector of {key} hides row {bitmap.max()}, which no file has", path=key)
        return bitmap

    def _finds_nan(self) -> bool:
        where = self.plan.where
        return where is not None and may_find_nan(where.predicate, self.plan.snapshot.schema)

    def _skip_row_groups(self, df: DataFrame, lot: Lot) -> DataFrame:
        if self.plan.where is None:
            return df
        tops = {f.name: lot.spelling.top(f) for f in self._stored_fields() if not has_void(f.type)}
        for part in conjuncts(self.plan.where.predicate):
            safe = is_safe_below(part) and not may_find_nan(part, self.plan.snapshot.schema)
            if safe and all(column[0] in tops for column in columns_of(part)):
                df = df.where(below(part, lambda name: named(tops[name])))
        return df

    def _outputs(self, lot: Lot, hive: bool, numbered: bool) -> list[Column]:
        positions = {name: i for i, name in enumerate(self.plan.snapshot.partition_columns)}
        made = []
        for f in self.plan.snapshot.schema.fields:
            if f.name in positions:
                made.append(self._partition_value(f, positions[f.name], hive, numbered).alias(f.name))
            else:
                made.append(_logical(f, lot.spelling).alias(f.name))
        asked = self.plan.metadata.items()
        return [*made, *(self._metadata(name, lot, hive, numbered).alias(out) for name, out in asked)]

    def _partition_value(self, f: Field, position: int, hive: bool, numbered: bool) -> Column:
        return named(f.physical_name) if hive else facts.known(_partition_name(position), numbered=numbered)

    def _places(self, lot: Lot) -> pa.Array:
        """The numbers that the files of a lot have in the plan."""
        return (
            pc.index_in(lot.files.column("key"), value_set=self.plan.files.column("key")).combine_chunks().cast("int64")
        )

    def _per_file(self, lot: Lot, joined: str, fact: str, numbered: bool) -> Column:
        """A number of a row's file: looked up, or joined."""
        if self._looks_up_ids(lot):
            values = self._places(lot) if fact == names.FILE_NUMBER else _whole(lot.files.table, fact)
            return facts.by_number(values)
        return facts.known(joined, numbered=numbered)

    def _metadata(self, name: str, lot: Lot, hive: bool, numbered: bool) -> Column:
        identity = self.plan.snapshot.identity
        match name:
            case names.FILE:
                return F.col(facts.PATH)
            case names.ROW_INDEX:
                return facts.position()
            case names.PARTITION:
                fields = self.plan.partition_fields
                if not fields:
                    return F.struct()
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
            fresh, stored = base + facts.position(), identity.id_column
        else:
            fresh = self._per_file(lot, facts.VERSION, "default_row_commit_version", numbered)
            stored = identity.version_column
        return fresh if stored is None else F.coalesce(named(stored), fresh)


def _logical(f: Field, spelling: Spelling) -> Column:
    """A stored column under its logical type: nested fields take their logical names."""
    if has_void(f.type):
        return F.lit(None).cast(spark_type(f.type))
    stored = named(spelling.top(f))
    shown = spark_type(f.type)
    return stored if spark_type(spelling.type(f)) == shown else stored.cast(shown)


def _all_outputs(plan: ScanPlan) -> tuple[Field, ...]:
    return _outputs_of(replace(plan, columns=plan.snapshot.schema.fields))


def _outputs_of(plan: ScanPlan) -> tuple[Field, ...]:
    """The columns a plan gives, then its metadata columns."""
    return (*plan.columns, *(metadata_field(plan.snapshot, name, output) for name, output in plan.metadata.items()))


def _needed(plan: ScanPlan) -> tuple[Field, ...]:
    """The asked columns and those the condition may use: all, where it is not fully understood."""
    if plan.where is None:
        return plan.columns
    used = {column[0] for column in columns_of(plan.where.predicate)}
    if has_opaque(plan.where.predicate):
        used |= set(plan.snapshot.schema.names)
    asked = {f.name for f in plan.columns}
    return (*plan.columns, *(f for f in plan.snapshot.schema.fields if f.name in used - asked))


def _whole(files: pa.Table, name: str) -> pa.Array:
    """A fact that every file of a table with row tracking must have."""
    values = files.column(name).combine_chunks()
    if values.null_count:
        at = pc.index(pc.is_null(values), True).as_py()
        key = files.column("key")[at].as_py()
        raise Damaged(f"the table tracks rows, but its log gives no {name} for {key}", path=key)
    return values


def _partition_name(position: int) -> str:
    return f"__hf_partition_{position}"
