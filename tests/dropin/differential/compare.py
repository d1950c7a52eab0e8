"""What differs between two answers to one step, by the name of what differs.

`outcome` (one raised), `raised` (the class), `condition`, `columns`, `types`, `nullable`, `rows` with the column where
only some differ, `value`.
"""

from __future__ import annotations

import json
from typing import Any

from tests.dropin.differential.answer import Answer
from tests.dropin.differential.program import Program

_WRITTEN = "conditions are told as they were written, not as Spark renders them"
_LAYOUT = "how rows are spread over files is each engine's own"
_MORE = "we tell more"
_NOT_COUNTED = "not counted"
_PROTOCOL = "the least protocol that has the features"
EVERYWHERE = {  # differences that are meant to be wherever they turn up, with the reason
    "rows:operationParameters.predicate": _WRITTEN,
    "rows:operationParameters.matchedPredicates": _WRITTEN,
    "rows:operationParameters.notMatchedPredicates": _WRITTEN,
    "rows:operationParameters.notMatchedBySourcePredicates": _WRITTEN,
    "rows:operationParameters.isManaged": "a commit does not know what a catalog calls its table",
    "rows:operationParameters.partitionBy": "what the table is partitioned by; delta-spark tells what a write asks for",
    "rows:operationParameters.canMergeSchema": _NOT_COUNTED,
    "rows:isBlindAppend": "creating a table is no append",
    "rows:operationMetrics.materializeSourceTimeMs": _NOT_COUNTED,
    "rows:operationMetrics.numTargetDeletionVectorsUpdated": _NOT_COUNTED,
    "rows:operationMetrics.numDeletionVectorsUpdated": _NOT_COUNTED,
    "rows:operationMetrics.numScannedFiles": _MORE,
    "rows:operationMetrics.numTargetFilesScanned": _MORE,
    "rows:operationMetrics.numFiles": _LAYOUT,
    "rows:operationMetrics.numTargetFilesAdded": _LAYOUT,
    "rows:operationMetrics.numTargetRowsCopied": _LAYOUT,
    "rows:operationMetrics.numOutputRows": _LAYOUT,
    "rows:numFiles": _LAYOUT,
    **{
        f"rows:metrics.{name}": _NOT_COUNTED
        for name in (
            *("startTimeMs", "endTimeMs", "filesAdded.min", "filesAdded.max", "filesRemoved.min", "filesRemoved.max"),
            *("numTableColumns", "numTableColumnsWithStats", "partitionsOptimized", "totalConsideredFiles"),
            *("totalFilesSkipped", "totalClusterParallelism", "totalScheduledTasks"),
            *("numFilesSkippedToReduceWriteAmplification", "numBytesSkippedToReduceWriteAmplification"),
        )
    },
    "rows:metrics.deletionVectorStats": _MORE,
    "rows:metrics.preserveInsertionOrder": "rows stay in their order",
    "rows:metrics.numBatches": "a batch is a commit, and nothing to do is none",
    **{
        f"rows:operationMetrics.{name}": _NOT_COUNTED
        for name in ("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize")
    },
    "rows:operationMetrics.numVacuumedDirectories": "object stores have none",
    "rows:operationParameters.versionsLost": _MORE,
    "rows:minWriterVersion": _PROTOCOL,
    "rows:delta.minWriterVersion": _PROTOCOL,
    **{
        f"rows:delta.feature.{name}": _PROTOCOL
        for name in (
            *("appendOnly", "invariants", "columnMapping", "changeDataFeed"),
            *("identityColumns", "generatedColumns"),
        )
    },
    "rows:tableFeatures": _PROTOCOL,
}


def differences(theirs: Answer, ours: Answer) -> dict[str, str]:
    """By name, what delta-spark answered and what we did."""
    if ("raised" in theirs) != ("raised" in ours):
        return {"outcome": _both(_short(theirs), _short(ours))}
    if "raised" in theirs:
        found = {}
        if theirs["raised"][0] not in ours["raised"]:
            found["raised"] = _both(theirs["raised"], [*ours["raised"], ours["says"]])
        if theirs["condition"] != ours["condition"]:
            found["condition"] = _both(theirs["condition"], f"{ours['condition']} {ours['says'][:200]}")
        return found
    if "value" in theirs or "value" in ours:
        return {} if theirs == ours else {"value": _both(_short(theirs), _short(ours))}
    shape = ("columns", "types", "nullable")
    found = {each: _both(theirs[each], ours[each]) for each in shape if theirs[each] != ours[each]}
    if theirs["columns"] == ours["columns"] == ["key", "value"]:
        return found | _apart("rows", dict(theirs["rows"]), dict(ours["rows"]))
    theirs, ours = _in_order(theirs), _in_order(ours)
    if "columns" in found or len(theirs["rows"]) != len(ours["rows"]):
        return found if theirs["rows"] == ours["rows"] else found | {"rows": _both(theirs["rows"], ours["rows"])}
    for at, name in enumerate(theirs["columns"]):
        for left, right in zip(theirs["rows"], ours["rows"], strict=True):
            if left[at] != right[at]:
                for key, told in _apart(f"rows:{name}", left[at], right[at]).items():
                    found.setdefault(key, told)
    return found


def surprises(
    program: Program, theirs: dict[str, Answer], ours: dict[str, Answer], everywhere: set[str] | None = None
) -> list[str]:
    """Differences that are not meant to be, and those meant to be that are none.

    Those of EVERYWHERE that were seen are added to `everywhere`.
    """
    told = []
    seen = set[str]() if everywhere is None else everywhere
    for step in dict.fromkeys([*theirs, *ours]):
        meant = program.meant.get(step, {})
        if step not in theirs or step not in ours:
            found = {"missing": "delta-spark has no such table" if step not in theirs else "Holdfast has no such table"}
        else:
            found = differences(theirs[step], ours[step])
        known = [name for name in found if name in EVERYWHERE and name not in meant]
        seen.update(known)
        found = {name: what for name, what in found.items() if name not in known}
        text = program.steps[int(step)] if step.isdigit() else step
        told += [f"{text}\n    {name}: {what}" for name, what in found.items() if name not in meant]
        told += [f"{text}\n    {name}: no longer differs ({why})" for name, why in meant.items() if name not in found]
    steps = {*theirs, *ours}
    return told + [f"{step}: there is no such step" for step in program.meant if step not in steps]


def _apart(name: str, left: object, right: object) -> dict[str, str]:
    """Where two cells differ: by key where both are maps. How JSON is spaced makes no difference."""
    if isinstance(left, str) and isinstance(right, str) and left[:1] in "[{" and _parsed(left) == _parsed(right):
        return {}
    if isinstance(left, dict) and isinstance(right, dict):
        return {
            found: what
            for key in sorted({*left, *right})
            if left.get(key, "absent") != right.get(key, "absent")
            for found, what in _apart(
                f"{name}{':' if name == 'rows' else '.'}{key}", left.get(key, "absent"), right.get(key, "absent")
            ).items()
        }
    return {name: _both(left, right)}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _in_order(answer: Answer) -> Answer:
    """A history by its versions as numbers."""
    if answer["columns"][:1] != ["version"] or not all(isinstance(row[0], int) for row in answer["rows"]):
        return answer
    return answer | {"rows": sorted(answer["rows"], key=lambda row: row[0])}


def _short(answer: Answer) -> object:
    if "raised" in answer:
        return f"{answer['raised'][0]} [{answer['condition']}] {answer['says'][:300]}"
    return answer.get("value", answer.get("rows"))


def _both(left: object, right: object) -> str:
    return f"delta-spark {str(left)[:1200]}\n{' ' * 8}holdfast    {str(right)[:1200]}"
