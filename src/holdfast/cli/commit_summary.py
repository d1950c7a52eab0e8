"""What a commit did, in words: made of the metrics that commits tell, whoever wrote them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.cli.screen import count_text

_ROWS = (
    ("inserted", ("numInsertedRows", "numTargetRowsInserted")),
    ("updated", ("numUpdatedRows", "numTargetRowsUpdated")),
    ("deleted", ("numDeletedRows", "numTargetRowsDeleted")),
    ("copied", ("numCopiedRows", "numTargetRowsCopied")),
)
_WRITTEN = ("numOutputRows", "added-records")
_FILES = (
    ("+", ("numAddedFiles", "numTargetFilesAdded", "numFiles", "added-data-files")),
    ("-", ("numRemovedFiles", "numTargetFilesRemoved", "deleted-data-files")),
)
_OTHER = (
    ("deletion vector", "added", ("numDeletionVectorsAdded", "numTargetDeletionVectorsAdded", "added-dvs")),
    ("row", "deleted", ("deleted-records",)),
    ("file", "restored", ("numRestoredFiles",)),
    ("file", "to delete", ("numFilesToDelete",)),
    ("file", "deleted", ("numDeletedFiles",)),
    ("file", "with new ids", ("numReaddedFiles",)),
)


def told(metrics: Mapping[str, Any]) -> str:
    """Rows first, then files; what is nothing is left out."""
    return ", ".join((*_rows(metrics), *_files(metrics), *_others(metrics)))


def _rows(metrics: Mapping[str, Any]) -> Iterator[str]:
    changed = [(word, _first(metrics, names)) for word, names in _ROWS]
    if not any(count for _, count in changed):
        if written := _first(metrics, _WRITTEN):
            yield f"{count_text(written, 'row')} written"
        return
    yield from (f"{count_text(count, 'row')} {word}" for word, count in changed if count)


def _files(metrics: Mapping[str, Any]) -> Iterator[str]:
    counts = [(sign, _first(metrics, names)) for sign, names in _FILES]
    told = [f"{sign}{count:,}" for sign, count in counts if count]
    if told:
        yield f"{' '.join(told)} {'file' if sum(count for _, count in counts) == 1 else 'files'}"


def _others(metrics: Mapping[str, Any]) -> Iterator[str]:
    for noun, word, names in _OTHER:
        if count := _first(metrics, names):
            yield f"{count_text(count, noun)} {word}"


def _first(metrics: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """The first of some metrics that is there, as a number: writers tell them as text."""
    for name in names:
        value = str(metrics.get(name, ""))
        if value.isdigit() and int(value):
            return int(value)
    return 0
