"""Clones a Delta table: names or copies the files of its source, and commits them in another log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.env import Env
from holdfast.errors import Invalid
from holdfast.formats.delta.commit.relocate import copied_to, pointed_at
from holdfast.formats.delta.commit.restamp import described, with_counts
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.protocol.features import check_writable, reader_features, writer_features
from holdfast.formats.delta.state import DeltaState
from holdfast.schema.properties import ENABLE_ROW_TRACKING, truth
from holdfast.schema.requests import requested
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.verbs.commit.loop import commit
from holdfast.verbs.define.backfill import row_counts
from holdfast.verbs.define.clone_mutation import cloned, cloned_shape, copy_files, lacking

_BY_PATH = re.compile(r"(?:delta\.)?`(.+)`", re.DOTALL)
_ABOUT_ITSELF = ("delta.", "holdfast.")
_LISTED = 7  # the writer version from which features are listed


@dataclass(frozen=True, slots=True)
class CloneOptions:
    """What a clone is to be."""

    shallow: bool
    replace: bool
    properties: Mapping[str, str]


def target_of(target: str, source: Location, storage_options: Mapping[str, str] | None) -> Location:
    """The directory a target names, as a path or as ``delta.`/path` ``.

    In the source's store it is reached as that is, unless options say how.
    """
    by_path = _BY_PATH.fullmatch(target.strip())
    place = open_location(by_path[1] if by_path else target, storage_options=storage_options)
    own = storage_options is None and place.store.url == source.store.url
    return replace(place, store=source.store) if own else place


def clone_to(
    source: DeltaState, target: str, options: CloneOptions, storage_options: Mapping[str, str] | None, env: Env
) -> DeltaState:
    """Make a table at a path, or at ``delta.`path` ``, that begins with the rows of a version of another."""
    return clone(source, target_of(target, source.snapshot.location, storage_options), options, env)


def clone(source: DeltaState, target: Location, options: CloneOptions, env: Env) -> DeltaState:
    """Make a table that begins with the rows of a version of another."""
    origin = source.snapshot.location
    if (origin.store.url, origin.directory) == (target.store.url, target.directory):
        raise Invalid(f"{origin.url} cannot be cloned onto itself: name another directory")
    if options.shallow and origin.store.url != target.store.url:
        target = replace(target, allow_outside=True)
    format_ = DeltaFormat(target)
    old = format_.newest(None)
    if old is not None and not options.replace:
        raise Invalid(f"there is a table at {target.url} already: say replace=True to put the clone in its place")
    if old is not None:
        check_writable(old.protocol, table=target.url)
    wanted = requested(options.properties)
    listed = source.protocol.min_writer_version >= _LISTED
    features = writer_features(source.protocol) | reader_features(source.protocol) if listed else frozenset[str]()
    before = None if old is None else DeltaFormat.definition_of(old)
    shape = cloned_shape(DeltaFormat.definition_of(source), wanted.properties, features | wanted.features, before)
    files = described(source.snapshot.files)
    if "rowTracking" in shape.features or truth(shape.properties.get(ENABLE_ROW_TRACKING)):
        files = with_counts(files, row_counts(origin, files, {}))
    named = pointed_at(origin, files, target) if options.shallow else copied_to(origin, files, target)
    snapshot = None if old is None else old.snapshot
    copied = 0
    if not options.shallow:
        load_hidden(origin, source.snapshot.files)  # a vector that is wrong is not worth copying
        copied = copy_files(origin, target, lacking(named.copies, snapshot), env.now_ms)
    mutation = cloned(
        source.snapshot,
        named.files,
        shape,
        snapshot,
        shallow=options.shallow,
        copied=copied,
        domains=_kept_for_users(source, old),
    )
    same_files = not mutation.removed.num_rows and not mutation.readded.num_rows
    if old is None or shape != before or mutation.domains or not same_files:
        commit(DeltaFormat(target), old, mutation, env)
    clone_state = format_.newest(old)
    assert clone_state is not None, "the clone was just made"
    return clone_state


def _kept_for_users(source: DeltaState, old: DeltaState | None) -> dict[str, str]:
    """Domains of the source that a clone lacks; those of the format and of Holdfast are about the source itself."""
    known = {} if old is None else old.domains
    return {
        name: domain.configuration
        for name, domain in source.domains.items()
        if domain.configuration is not None
        and not name.startswith(_ABOUT_ITSELF)
        and (name not in known or known[name].configuration != domain.configuration)
    }
