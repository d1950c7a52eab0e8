"""Versions by number or by the name of a pin, and how pins keep them.

1. A pin is in the table itself, so whoever cleans up sees it.
2. Pins that are set at the same time go together.
3. A version is refused only after a file of it was looked for and not found.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import Any

from holdfast.env import Env
from holdfast.errors import ConcurrentTransaction, Invalid, TableError, UnknownVersion
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.history.pins import PINS_DOMAIN, encode_pins, pins_of, refuse_without_domains
from holdfast.formats.delta.history.vacuums import missing_file, who_took
from holdfast.formats.delta.protocol.features import check_writable
from holdfast.formats.delta.state import DeltaState, load, refresh
from holdfast.model.mutation import Mutation
from holdfast.verbs.maintain.vacuum_files import HOUR_MS, moment
from holdfast.verbs.open.delta import open_delta

_PINNED_AGAIN = 100  # times, before so many pins at once are the user's business

_log = logging.getLogger(__name__)


def pin(state: DeltaState, version: Any, name: Any, env: Env) -> int:
    """Give a version a name, and keep it for as long as it has one."""
    if version is not None and type(version) is not int:
        raise Invalid(f"a version is a whole number, not {version!r}: the call is pin(version, name)")
    if not isinstance(name, str) or not name.strip():
        raise Invalid("a pin needs a name: pin(version, name)")
    location = state.snapshot.location
    for _ in range(_PINNED_AGAIN):
        check_writable(state.protocol, table=location.url)
        refuse_without_domains(state)
        at = state.version if version is None else version
        pins = pins_of(state)
        if pins.get(name) == at:
            return at
        if name in pins:
            raise Invalid(
                f"{name} is version {pins[name]} of {location.url} already: unpin it first, or choose another"
            )
        then = state if at == state.version else load(location, version=at)
        refuse_vacuumed(state, then)
        mutation = Mutation("PIN VERSION", {"name": name, "version": str(at)}, domains=_domains({**pins, name: at}))
        with suppress(ConcurrentTransaction):  # another pin came first: the two go together
            open_delta(state).commit(replace(mutation, data_change=False), env)
            _checkpoint(then, env)
            return at
        state = refresh(state)
    raise ConcurrentTransaction(f"others pin versions of {location.url} all the time", version=state.version)


def unpin(state: DeltaState, name: str, env: Env) -> None:
    """Let a version go the way of all others."""
    location = state.snapshot.location
    for _ in range(_PINNED_AGAIN):
        check_writable(state.protocol, table=location.url)
        pins = pins_of(state)
        if name not in pins:
            raise Invalid(f"no version of {location.url} is pinned as {name}: pinned are {', '.join(pins) or 'none'}")
        left = {known: at for known, at in pins.items() if known != name}
        mutation = Mutation("UNPIN VERSION", {"name": name, "version": str(pins[name])}, domains=_domains(left))
        with suppress(ConcurrentTransaction):
            open_delta(state).commit(replace(mutation, data_change=False), env)
            return
        state = refresh(state)
    raise ConcurrentTransaction(f"others pin versions of {location.url} all the time", version=state.version)


def pinned_version(state: DeltaState, version: Any) -> int | None:
    """The version that a number or the name of a pin means."""
    if isinstance(version, str):
        pins = pins_of(state)
        if version not in pins:
            raise UnknownVersion(
                f"no version of {state.snapshot.location.url} is pinned as {version!r}: pinned are "
                f"{', '.join(pins) or 'none'}; a version that has no name is given as a whole number"
            )
        return pins[version]
    if version is not None and type(version) is not int:
        raise Invalid(f"a version is a whole number or the name of a pin, not {version!r}")
    return version


def refuse_vacuumed(now: DeltaState, then: DeltaState) -> None:
    """Refuse an earlier version whose files are gone, and say which vacuum took them."""
    missing = missing_file(now, then)
    if missing is None:
        return
    location = now.snapshot.location
    run = who_took(location, then.version)
    by = "files of it are gone"
    if run is not None:
        kept = "" if run.retention_ms is None else f" with a retention of {run.retention_ms / HOUR_MS:g} hours"
        by = f"the vacuum of version {run.version} at {moment(run.moment_ms)}{kept} deleted files of it"
    raise UnknownVersion(
        f"version {then.version} of {location.url} cannot be read any more: {by}, such as {missing}; "
        "readableVersions() lists those that can, and pin(version, name) keeps one",
        version=then.version,
    )


def _domains(pins: dict[str, int]) -> dict[str, str | None]:
    return {PINS_DOMAIN: encode_pins(pins)}


def _checkpoint(then: DeltaState, env: Env) -> None:
    """Make a pinned version readable from few files of the log; without one it is read from its commits."""
    try:
        write_checkpoint(then, env)
    except TableError as error:
        _log.warning("version %s of %s is pinned without a checkpoint: %s", then.version, then.snapshot.location, error)
