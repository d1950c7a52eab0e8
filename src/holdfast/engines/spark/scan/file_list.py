"""Makes Spark read exactly the given files, and checks that it will.

A few files are named one by one. More than that are listed in Spark's own file-sink log, written to a scratch
directory that is then read: no directory is listed, files may lie anywhere, and a missing one raises. It is an
internal format of Spark, so this module is the only one that knows it.

1. A DataFrame made here reads the given files and no others; when Spark would do otherwise, opening it raises.
2. A list is named by its content, so the same files share one, and a plan that is resolved again finds it.
3. A list can number its files: the time of change that Spark then reports of a file is its number in the list. So a
   row knows its file by a small number, which costs nothing, where a path must be hashed for every row.
4. Whatever the session says, missing and corrupt files raise, and values are taken as they are stored.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast.engines.spark.scan.scratch import Scratch
from holdfast.env import system
from holdfast.errors import Damaged, Unsupported

NAMED_AT_MOST = 30
_OWN = "holdfast.scan"  # an option that means nothing to Spark and keeps two plans apart
_GLOB = re.compile(r"([\\\[\]{}*?])")
_OPTIONS = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",  # for files that do not say; those of old Spark versions do
    "int96RebaseMode": "CORRECTED",
}


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as Spark must see it."""

    uri: str  # as `_metadata.file_path` spells it
    path: str  # as `read` takes it: the same with nothing encoded
    size: int
    modified_ms: int


def read_files(
    spark: SparkSession,
    files: Sequence[ListedFile],
    schema: StructType,
    scratch: Scratch,
    *,
    hive: bool = False,
    numbered: bool = False,
    dictionaries: bool = True,
) -> DataFrame:
    """A DataFrame over these files.

    `hive`: let Spark take partition values from their directories; `numbered`: number the files, see `file_number`;
    `dictionaries`: let Spark look into dictionaries for row groups to skip.
    """
    _refuse_hidden(files)
    options = dict(_OPTIONS)
    if not dictionaries:
        options["parquet.filter.dictionary.enabled"] = "false"
    if not hive:
        options["recursiveFileLookup"] = "true"
    if len(files) <= NAMED_AT_MOST and not hive and not numbered:
        paths = [_GLOB.sub(r"\\\1", f.path) for f in files]
    else:
        paths = [_listed(files, scratch, numbered=numbered)]
    df = spark.read.schema(schema).options(**options).parquet(*paths)
    named = df.inputFiles()
    if files and not named:
        # Spark names no file of a plan that it has in its cache: one that no other plan equals is not there.
        df = spark.read.schema(schema).options(**options, **{_OWN: str(system().new_uuid())}).parquet(*paths)
        named = df.inputFiles()
    _prove(named, files)
    return df


def file_number(metadata: Column) -> Column:
    """The number of a row's file in a numbered list, from Spark's `_metadata`."""
    return F.unix_millis(metadata["file_modification_time"])


def _listed(files: Sequence[ListedFile], scratch: Scratch, *, numbered: bool = False) -> str:
    lines = [
        json.dumps(
            {
                "path": f.uri,
                "size": f.size,
                "isDir": False,
                "modificationTime": number if numbered else f.modified_ms,
                "blockReplication": 1,
                "blockSize": 128 * 1024 * 1024,
                "action": "add",
            }
        )
        for number, f in enumerate(files)
    ]
    body = "\n".join(("v1", *lines)).encode()
    name = hashlib.sha256(body).hexdigest()[:32]
    scratch.write(f"{name}/_spark_metadata/0", body)
    return scratch.path(name)


def _prove(named: Sequence[str], files: Sequence[ListedFile]) -> None:
    """Compare what Spark says it will read with what it must read; grows with the files, never with rows."""
    wanted = {f.uri for f in files}
    read = {re.sub("^file:///", "file:/", uri) for uri in named}
    if read == wanted:
        return
    missing = sorted(wanted - read)
    if missing:
        raise Damaged(
            f"Spark would not read {len(missing)} of {len(wanted)} files of the table, such as {missing[0]}; "
            "check that it exists and that Spark can reach it",
            path=missing[0],
        )
    extra = sorted(read - wanted)
    raise Damaged(f"Spark would read {extra[0]}, which is not a file of the table", path=extra[0])


def _refuse_hidden(files: Sequence[ListedFile]) -> None:
    for f in files:
        name = f.path.rpartition("/")[2]
        if name.startswith(("_", ".")):
            raise Unsupported(
                f"{f.path} is a file of the table, but Spark skips files whose names start with '_' or '.'; "
                "read the table with toArrow(), or rewrite that file under another name"
            )
