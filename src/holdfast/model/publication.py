"""What a table records of another table whose rows are published into it.

Rows are published from a stretch of versions of their table at a time, each stretch in one commit of the table they go
to. So what a row there says of when it last changed is the version of that commit, and the stretch says which versions
of its own table that means.

1. Stretches follow one another without a gap, oldest first; the first begins with version 0.
2. A table remembers the last MOST of them; older ones are told as one, by the commit of the newest among these.
3. What is stored is text by name, the same in every format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from holdfast.errors import Damaged
from holdfast.storage.error_mapping import MALFORMED_JSON

MOST = 100
PUBLISHES = "PUBLISH"  # the operation of a commit that brings rows of another table under their ids
TABLE, LOCATION, VERSION, VERSIONS = "table-id", "location", "version", "versions"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Versions of a table, and the version of another that has what they brought."""

    first: int
    last: int
    at: int


@dataclass(frozen=True, slots=True)
class Publication:
    """Which table's rows are here, and how far."""

    table: str  # its id
    location: str
    stretches: tuple[Stretch, ...]

    @property
    def version(self) -> int:
        """The last version of that table whose rows are here."""
        return self.stretches[-1].last

    def at(self, version: int) -> int | None:
        """The version here that brought what a version there did; None where that is not here yet."""
        return next((s.at for s in self.stretches if s.first <= version <= s.last), None)

    def versions(self, at: int) -> tuple[int, int] | None:
        """The versions there, first and last, of which one last changed a row that says `at` here."""
        return next(((s.first, s.last) for s in self.stretches if at <= s.at), None)

    def rendered(self) -> dict[str, str]:
        """The publication as it is stored."""
        spans = {f"{s.first}-{s.last}": s.at for s in self.stretches}
        return {
            TABLE: self.table,
            LOCATION: self.location,
            VERSION: str(self.version),
            VERSIONS: msgspec.json.encode(spans).decode(),
        }


@dataclass(frozen=True, slots=True)
class Publishing:
    """A publication in the making: its commit is to bring everything up to a version."""

    table: str
    location: str
    last: int
    before: tuple[Stretch, ...] = ()  # what the table it goes to has already

    @property
    def first(self) -> int:
        return self.before[-1].last + 1 if self.before else 0

    def landed(self, at: int) -> Publication:
        """What the table has once the commit is its version `at`."""
        stretches = (*self.before, Stretch(self.first, self.last, at))
        if (more := len(stretches) - MOST) > 0:
            newest = stretches[more]
            stretches = (Stretch(0, newest.last, newest.at), *stretches[more + 1 :])
        return Publication(self.table, self.location, stretches)


def publication_of(stored: Mapping[str, str], *, where: str) -> Publication:
    """A publication as it was stored; `where` names the place in errors."""
    try:
        spans = msgspec.json.decode(stored[VERSIONS], type=dict[str, int])
        ends = [(*map(int, text.split("-")), at) for text, at in spans.items()]
        stretches = tuple(sorted((Stretch(*end) for end in ends), key=lambda s: s.first))
        publication = Publication(stored[TABLE], stored[LOCATION], stretches)
        if publication.version != int(stored[VERSION]):
            raise ValueError(f"version {stored[VERSION]} is not the last of {stored[VERSIONS]}")
    except MALFORMED_JSON as error:
        raise Damaged(f"what {where} says of the rows published into it cannot be read: {error}", path=where) from error
    return publication
