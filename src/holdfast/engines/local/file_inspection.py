"""Reads the footers of many data files in this process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pyarrow as pa

from holdfast.parquet.inspect import INSPECTED, FooterRequest, inspect_file
from holdfast.plan.maintain.check import Asks
from holdfast.storage.base import ObjectStore

_THREADS = 16  # footers are small and far away


def inspect_files(asks: Asks) -> pa.Table:
    """What the files say, with the columns of INSPECTED."""

    def one(request: tuple[ObjectStore, FooterRequest]) -> dict[str, object]:
        store, ask = request
        return asdict(inspect_file(store, ask, asks.id_column))

    with ThreadPoolExecutor(_THREADS) as pool:
        return pa.Table.from_pylist(list(pool.map(one, asks.files)), INSPECTED)  # one per file
