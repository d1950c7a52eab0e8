"""Decides whether Spark may take partition values from directory names.

When it can, its own partition pruning works on the DataFrame and no facts need joining; when a single file's
directory says anything else than the log, the log's values are joined instead.

1. Only types whose text has one meaning whatever the session's settings: strings, whole numbers, dates.
2. Every planned file lies in exactly the directory that its partition values, in order, would have.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.files import FileTable
from holdfast.schema.partition import column
from holdfast.schema.partition_text import NULL_DIRECTORY, directory
from holdfast.schema.types import STRING, Field, Primitive
from holdfast.storage.location import Location

_PLAIN = {STRING, *map(Primitive, ("long", "integer", "short", "byte", "date"))}
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def directories_agree(location: Location, files: FileTable, partitions: tuple[Field, ...]) -> bool:
    """Whether each file's directory says what the log says of its partition."""
    if not partitions or any(f.type not in _PLAIN for f in partitions):
        return False
    if "=" in location.directory.rpartition("/")[2]:
        return False  # Spark would take the table's own directory for one more partition
    expected = [_directories(files, f) for f in partitions]
    if any(part is None for part in expected):
        return False
    joined = pc.binary_join_element_wise(*expected, "/") if len(expected) > 1 else expected[0]
    directories = pc.replace_substring_regex(files.column("key"), r"/?[^/]*$", "")
    return bool(pc.all(pc.equal(directories, joined)).as_py())


def _directories(files: FileTable, field: Field) -> pa.Array | None:
    """The directory name of each file's value; None when some value has more than one spelling."""
    values = column(files.column("partition_values"), field.physical_name).dictionary_encode()
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    pattern = None if field.type == STRING else _DATE if field.type == Primitive("date") else _WHOLE
    names = []
    for text in values.dictionary.to_pylist():  # distinct values only
        if text and pattern is not None and not pattern.fullmatch(text):
            return None
        if text == NULL_DIRECTORY:
            return None
        names.append(directory(field.physical_name, text or None))
    nothing = pa.scalar(directory(field.physical_name, None))
    return pc.fill_null(pa.array(names, pa.string()).take(values.indices), nothing)
