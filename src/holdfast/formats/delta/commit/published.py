"""What a log says of rows that are published into the table: a domain of its own, set in the commit that brings them.

1. A table is as it was published if no commit since changed rows.
"""

from __future__ import annotations

import msgspec

from holdfast.formats.delta.log.actions import DomainMetadata, Line, commit_info
from holdfast.formats.delta.log.file_names import first_name
from holdfast.formats.delta.log.listing import list_log, log_url, read_lines
from holdfast.formats.delta.state import DeltaState
from holdfast.model.publication import Publication, Publishing, publication_of
from holdfast.storage.error_mapping import json_record

DOMAIN = "holdfast.published"


def published(publishes: Publishing, version: int) -> DomainMetadata:
    """The domain as the commit of a version sets it."""
    return DomainMetadata(DOMAIN, msgspec.json.encode(publishes.landed(version).told()).decode())


def published_into(state: DeltaState) -> Publication | None:
    """What the table has of another one; None where it has nothing."""
    found = state.domains.get(DOMAIN)
    if found is None or found.configuration is None:
        return None
    where = f"the domain {DOMAIN} of {state.snapshot.location.url}"
    return publication_of(json_record(found.configuration, dict[str, str], path=where), where=where)


def changed_since(state: DeltaState, publication: Publication) -> tuple[int, str] | None:
    """The first commit since, and what it is called, that changed rows; None where none did."""
    location, at = state.snapshot.location, publication.stretches[-1].at
    if at == state.version:
        return None
    commits = list_log(location, start=first_name(at + 1)).commits
    since = range(at + 1, state.version + 1)
    if gone := [version for version in since if version not in commits]:
        return gone[0], f"a commit that is gone from {log_url(location)}"
    for version, lines in zip(since, read_lines(location, [commits[v] for v in since]), strict=True):
        if any(map(_changes_rows, lines)):
            return version, str(commit_info(lines).get("operation", "an unnamed operation"))
    return None


def _changes_rows(line: Line) -> bool:
    action = line.add or line.remove
    return action is not None and action.data_change
