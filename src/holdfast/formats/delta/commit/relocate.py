"""The files of a table, with the columns of RESTAMPED, as another table's log names them.

1. A clone that copies nothing names every file, and every file of vectors, by its absolute path.
2. One that copies has the same names below its own directory; a file from elsewhere lies at the top of it.
3. Row ids and versions are the source's own: none of them goes along. A vector does, position by position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from holdfast.errors import Unsupported
from holdfast.formats.delta.deletion_vectors import vector_file
from holdfast.formats.delta.log.actions import DeletionVector, encode_path
from holdfast.model.files import DV
from holdfast.model.mutation import RESTAMPED
from holdfast.storage.arrays import strings
from holdfast.storage.location import Location

_Moved: TypeAlias = Callable[[str, Mapping[str, Any] | None], dict[str, Any] | None]  # a file's vector, elsewhere


@dataclass(frozen=True, slots=True)
class Relocated:
    """Files for another log, with the columns of RESTAMPED, and what to copy there: file keys from and to."""

    files: pa.Table
    copies: Mapping[str, str]


def pointed_at(source: Location, files: pa.Table, target: Location) -> Relocated:
    """Files where they are."""
    if files.column("dv").null_count < files.num_rows and source.store.url != target.store.url:
        raise Unsupported(
            f"{source.url} hides rows by deletion vectors, which are found only in a table's own store: purge() it "
            f"first, or clone it deeply to {target.url}"
        )

    def moved(key: str, dv: Mapping[str, Any] | None) -> dict[str, Any] | None:
        file = _vector_file(source, key, dv)
        return _kept(dv) if dv is None or file is None else _vector("p", source.spark_uri(file), dv)

    return Relocated(_renamed(files, source.spark_uri, moved, target), {})


def copied_to(source: Location, files: pa.Table, target: Location) -> Relocated:
    """Files as they will be below another directory."""
    rows = files.select(["key", "dv"]).to_pylist()  # one per file
    vectors = {file for row in rows if (file := _vector_file(source, row["key"], row["dv"])) is not None}
    names = _names([*(row["key"] for row in rows), *sorted(vectors)])

    def moved(key: str, dv: Mapping[str, Any] | None) -> dict[str, Any] | None:
        file = _vector_file(source, key, dv)
        if dv is None or file is None or dv["storage"] == "u":
            return _kept(dv)
        return _vector("p", target.spark_uri(names[file]), dv)

    return Relocated(_renamed(files, lambda key: encode_path(names[key]), moved, target), names)


def _names(keys: list[str]) -> dict[str, str]:
    """The name of each file below the new directory: its own, or without its path where it comes from elsewhere."""
    ends = Counter(key.rpartition("/")[2] for key in set(keys))
    names = {}
    for number, key in enumerate(dict.fromkeys(keys)):
        end = key.rpartition("/")[2]
        names[key] = key if "://" not in key else end if ends[end] == 1 else f"{number:05d}-{end}"
    return names


def _renamed(files: pa.Table, path: Callable[[str], str], moved: _Moved, target: Location) -> pa.Table:
    keys, vectors = files.column("key").to_pylist(), files.column("dv").to_pylist()  # one per file
    paths = strings([path(key) for key in keys])
    changed = {
        "path": paths,
        "key": target.file_keys(paths),
        "dv": pa.array([moved(key, dv) for key, dv in zip(keys, vectors, strict=True)], DV),
        "base_row_id": pa.nulls(files.num_rows, pa.int64()),
        "default_row_commit_version": pa.nulls(files.num_rows, pa.int64()),
    }
    columns = [changed[f.name] if f.name in changed else files.column(f.name) for f in RESTAMPED]
    return pa.Table.from_arrays(columns, schema=RESTAMPED)


def _vector_file(source: Location, key: str, dv: Mapping[str, Any] | None) -> str | None:
    return None if dv is None else vector_file(source, key, dv["storage"], dv["path"])


def _kept(dv: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if dv is None else dict(dv)


def _vector(storage: str, path: str, dv: Mapping[str, Any]) -> dict[str, Any]:
    vector = DeletionVector(storage, path, dv["size"], dv["cardinality"], dv["offset"])
    return {**dv, "id": vector.unique_id, "storage": storage, "path": path}
