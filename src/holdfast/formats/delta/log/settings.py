"""Everything a log says of a table but its files: protocol, metadata, application transactions, domains.

Folding actions over it, oldest first, gives the settings of a version: the newest of each kind wins, and a domain that
was removed is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.formats.delta.log.actions import DomainMetadata, Line, Metadata, Protocol, Txn


@dataclass(frozen=True, slots=True)
class TableSettings:
    """What holds at one version; protocol and metadata are None until some commit has set them."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: Mapping[str, Txn] = field(default_factory=dict)  # by application
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)  # by domain


@dataclass(frozen=True, slots=True)
class CompleteSettings:
    """Settings that are complete: a protocol and metadata were found."""

    protocol: Protocol
    metadata: Metadata
    txns: Mapping[str, Txn]
    domains: Mapping[str, DomainMetadata]


def known(settings: TableSettings) -> CompleteSettings:
    """Settings of which the caller has seen that they are complete."""
    assert settings.protocol is not None, "the log had a protocol"
    assert settings.metadata is not None, "the log had metadata"
    return CompleteSettings(settings.protocol, settings.metadata, settings.txns, settings.domains)


def fold(settings: TableSettings, lines: Iterable[Line]) -> TableSettings:
    """The settings after these actions."""
    protocol, metadata = settings.protocol, settings.metadata
    txns: dict[str, Txn] = {}
    domains: dict[str, DomainMetadata] = {}
    for line in lines:
        if line.protocol is not None:
            protocol = line.protocol
        elif line.meta_data is not None:
            metadata = line.meta_data
        elif line.txn is not None:
            txns[line.txn.app_id] = line.txn
        elif line.domain_metadata is not None:
            domains[line.domain_metadata.domain] = line.domain_metadata
    if not (txns or domains) and protocol is settings.protocol and metadata is settings.metadata:
        return settings
    merged = {**settings.domains, **domains}
    return TableSettings(
        protocol,
        metadata,
        {**settings.txns, **txns} if txns else settings.txns,
        {name: d for name, d in merged.items() if not d.removed} if domains else settings.domains,
    )
