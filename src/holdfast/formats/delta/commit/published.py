"""The domain metadata `holdfast.published`, which records the source of rows that were published into the table.

1. It is set in the commit that adds the rows.
2. A table is unchanged since its publication if no later commit changed rows.
"""

from __future__ import annotations

import msgspec

from holdfast.formats.delta.log.actions import DomainMetadata, commit_info
from holdfast.formats.delta.log.file_names import first_name
from holdfast.formats.delta.log.listing import list_log, log_url, read_commits
from holdfast.formats.delta.state import DeltaState
from holdfast.model.publication import Publication, Publishing, publication_of
from holdfast.storage.error_mapping import json_record

DOMAIN = "holdfast.published"


def published(publishes: Publishing, version: int) -> DomainMetadata:
    """The domain metadata that the commit of a version sets."""
    return DomainMetadata(DOMAIN, msgspec.json.encode(publishes.landed(version).rendered()).decode())


def published_into(state: DeltaState) -> Publication | None:
    """The publication of another table into this one; None where there is none."""
    domain = state.domains.get(DOMAIN)
    if domain is None or domain.configuration is None:
        return None
    where = f"the domain {DOMAIN} of {state.snapshot.location.url}"
    return publication_of(json_record(domain.configuration, dict[str, str], path=where), where=where)


def changed_since(state: DeltaState, publication: Publication) -> tuple[int, str] | None:
    """The first commit since the publication that changed rows, with its operation; None where none did."""
    location, at = state.snapshot.location, publication.stretches[-1].at
    if at == state.version:
        return None
    listing = list_log(location, start=first_name(at + 1))
    versions = range(at + 1, state.version + 1)
    if missing := [version for version in versions if version not in listing.commits]:
        return missing[0], f"a commit that is gone from {log_url(location)}"
    for version, lines in read_commits(location, listing, versions):
        actions = (line.add or line.remove for line in lines)
        if any(action is not None and action.data_change for action in actions):
            return version, str(commit_info(lines).get("operation", "an unnamed operation"))
    return None
