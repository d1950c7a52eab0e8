"""The state of a Delta table without its files: protocol, metadata, application transactions and domain metadata.

1. The newest action of each kind, application and domain decides; a removed domain is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.formats.delta.log.actions import DomainMetadata, Line, Metadata, Protocol, Txn


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Settings at one version; protocol and metadata are None until a commit has set them."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: Mapping[str, Txn] = field(default_factory=dict)  # by application
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)  # by domain

    @property
    def is_complete(self) -> bool:
        return self.protocol is not None and self.metadata is not None


@dataclass(frozen=True, slots=True)
class CompleteSettings:
    """Settings with a protocol and metadata."""

    protocol: Protocol
    metadata: Metadata
    txns: Mapping[str, Txn]
    domains: Mapping[str, DomainMetadata]


def complete(settings: TableSettings) -> CompleteSettings:
    """The same settings, which the caller knows to be complete."""
    assert settings.protocol is not None, "the log had a protocol"
    assert settings.metadata is not None, "the log had metadata"
    return CompleteSettings(settings.protocol, settings.metadata, settings.txns, settings.domains)


def fold(settings: TableSettings, lines: Iterable[Line]) -> TableSettings:
    """The settings after these actions, oldest first."""
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
