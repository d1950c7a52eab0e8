"""The metadata columns that a scan or a change uses, each under the name that the user gave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MetadataColumns:
    """Metadata columns in both directions; a condition may use several names for one column, an output has one."""

    canonical: Mapping[str, str] = field(default_factory=dict)  # the user's name -> canonical name

    @classmethod
    def of_outputs(cls, outputs: Mapping[str, str]) -> MetadataColumns:
        """The columns of an output, from canonical name -> name in the output."""
        return cls({name: canonical for canonical, name in outputs.items()})

    @property
    def outputs(self) -> dict[str, str]:
        """Canonical name -> name in the output."""
        return {canonical: name for name, canonical in self.canonical.items()}

    def __bool__(self) -> bool:
        return bool(self.canonical)


NO_METADATA = MetadataColumns()
