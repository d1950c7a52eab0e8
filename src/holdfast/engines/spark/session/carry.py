"""Pickles functions and stores for Spark's Python workers.

1. Holdfast's own code is pickled by value: a worker needs the packages it imports, and no Holdfast.
2. Stores travel inside the task function, with the credentials this process has; no plan, log or error shows them.
3. A worker that lacks a package says which, and where, before anything else is tried.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import cloudpickle

from holdfast.errors import Unavailable
from holdfast.plan.indexing import TaskFunction
from holdfast.storage.base import ObjectStore
from holdfast.storage.remote import RemoteStore

cloudpickle.register_pickle_by_value(sys.modules["holdfast"])


def carried(store: ObjectStore) -> ObjectStore:
    """The store as a process elsewhere can open it."""
    return RemoteStore(store.config.carried(os.environ)) if isinstance(store, RemoteStore) else store


def by_value(function: TaskFunction, needs: tuple[str, ...], *, work: str, otherwise: str = "") -> TaskFunction:
    """A task function that says what a worker lacks, where unpickling it there would only fail to import.

    `work` and `otherwise` complete the sentence: what the worker does with the package, and what else would help.
    """
    pickled = cloudpickle.dumps(function)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for name in needs:
            try:
                importlib.import_module(name)
            except ImportError as error:
                raise Unavailable(
                    f"Spark's Python workers {work} with {name}, which {sys.executable} of this worker does not have "
                    f"({error}): install {', '.join(needs)} there{otherwise}"
                ) from None
        unpacked: TaskFunction = pickle.loads(pickled)
        return unpacked(batches)

    return run
