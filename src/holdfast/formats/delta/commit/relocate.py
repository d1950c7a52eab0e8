"""The files of a table, with the columns of RESTAMPED, as the log of its clone names them.

1. A shallow clone names every data file and deletion vector file by its absolute path.
2. A deep clone has the same names below its own directory; a file from outside the source is at the top of it.
3. Row ids and row commit versions are not cloned. Deletion vectors are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from holdfast.errors import Unsupported
from holdfast.formats.delta.deletion_vectors import dv_file
from holdfast.formats.delta.log.actions import DeletionVector, Json, encode_path
from holdfast.model.files import DV
from holdfast.model.mutation import RESTAMPED
from holdfast.storage.arrays import strings
from holdfast.storage.location import Location

_MoveDv: TypeAlias = Callable[[str, Mapping[str, Any] | None], Json | None]  # from a file's key and its descriptor


@dataclass(frozen=True, slots=True)
class Relocated:
    """Files for the log of a clone, with the columns of RESTAMPED, and the file keys to copy from and to."""

    files: pa.Table
    copies: Mapping[str, str]


def pointed_at(source: Location, files: pa.Table, target: Location) -> Relocated:
    """The files of a shallow clone."""
    if files.column("dv").null_count < files.num_rows and source.store.url != target.store.url:
        raise Unsupported(
            f"{source.url} hides rows by deletion vectors, which are found only in a table's own store: purge() it "
            f"first, or clone it deeply to {target.url}"
        )

    def move_dv(key: str, dv: Mapping[str, Any] | None) -> Json | None:
        file = _dv_file(source, key, dv)
        return _kept(dv) if dv is None or file is None else _dv_at("p", source.spark_uri(file), dv)

    return Relocated(_renamed(files, source.spark_uri, move_dv, target), {})


def copied_to(source: Location, files: pa.Table, target: Location) -> Relocated:
    """The files of a deep clone."""
    rows = files.select(["key", "dv"]).to_pylist()  # one per file
    dv_files = {file for row in rows if (file := _dv_file(source, row["key"], row["dv"])) is not None}
    names = _names([*(row["key"] for row in rows), *sorted(dv_files)])

    def move_dv(key: str, dv: Mapping[str, Any] | None) -> Json | None:
        file = _dv_file(source, key, dv)
        if dv is None or file is None or dv["storage"] == "u":
            return _kept(dv)
        return _dv_at("p", target.spark_uri(names[file]), dv)

    return Relocated(_renamed(files, lambda key: encode_path(names[key]), move_dv, target), names)


def _names(keys: list[str]) -> dict[str, str]:
    """The key of each file below the new directory; a file from outside the source loses its path."""
    ends = Counter(key.rpartition("/")[2] for key in set(keys))
    names = {}
    for number, key in enumerate(dict.fromkeys(keys)):
        end = key.rpartition("/")[2]
        names[key] = key if "://" not in key else end if ends[end] == 1 else f"{number:05d}-{end}"
    return names


def _renamed(files: pa.Table, path: Callable[[str], str], move_dv: _MoveDv, target: Location) -> pa.Table:
    keys, vectors = files.column("key").to_pylist(), files.column("dv").to_pylist()  # one per file
    paths = strings([path(key) for key in keys])
    changed = {
        "path": paths,
        "key": target.file_keys(paths),
        "dv": pa.array([move_dv(key, dv) for key, dv in zip(keys, vectors, strict=True)], DV),
        "base_row_id": pa.nulls(files.num_rows, pa.int64()),
        "default_row_commit_version": pa.nulls(files.num_rows, pa.int64()),
    }
    columns = [changed[f.name] if f.name in changed else files.column(f.name) for f in RESTAMPED]
    return pa.Table.from_arrays(columns, schema=RESTAMPED)


def _dv_file(source: Location, key: str, dv: Mapping[str, Any] | None) -> str | None:
    return None if dv is None else dv_file(source, key, dv["storage"], dv["path"])


def _kept(dv: Mapping[str, Any] | None) -> Json | None:
    return None if dv is None else dict(dv)


def _dv_at(storage: str, path: str, dv: Mapping[str, Any]) -> Json:
    return DeletionVector(storage, path, dv["size"], dv["cardinality"], dv["offset"]).as_row()
