"""`holdfast properties`: list, set and unset the properties of a table."""

from __future__ import annotations

import click
from rich.text import Text

from holdfast.cli.command import dry_run_option, on_table, pairs
from holdfast.cli.output import Answer
from holdfast.cli.screen import facts
from holdfast.cli.target import Target
from holdfast.cli.write_result import report_commit, report_dry_run
from holdfast.formats.delta.detail import settings_of
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.protocol.features import check_writable
from holdfast.formats.delta.state import DeltaState
from holdfast.schema.requests import requested, spelled
from holdfast.verbs.define.properties import set_properties, unset_properties


@click.command("properties")
@on_table()
@click.argument("sets", nargs=-1, callback=pairs, metavar="[NAME=VALUE]...")
@click.option("--unset", multiple=True, metavar="NAME", help="Take a property away, so that its default counts again.")
@dry_run_option
def command(
    target: Target, answer: Answer, sets: tuple[tuple[str, str], ...], unset: tuple[str, ...], dry_run: bool
) -> None:
    """The properties of a table: list, set, unset.

    \b
    holdfast properties orders
    holdfast properties orders delta.appendOnly=true --unset delta.targetFileSize
    """
    if not sets and not unset:
        own = target.delta().snapshot.properties
        settings = {**dict(sorted(own.items())), **{k: v for k, v in settings_of(own).items() if k not in own}}
        if answer.as_json:
            answer.lines({"name": name, "value": value, "default": name not in own} for name, value in settings.items())
            return
        facts((k, v if k in own else Text(f"{v} (default)", "dim")) for k, v in settings.items())
        return
    request = requested(dict(sets))
    removed = [spelled(name) for name in unset]
    _refuse_unfit(target.delta(), dict(sets), removed)  # setting and unsetting are two commits
    if dry_run:
        says = [f"{name} = {value}" for name, value in request.properties.items()]
        says += [f"the feature {name}" for name in sorted(request.features)] + [f"no {name}" for name in removed]
        wish = {"set": dict(request.properties), "features": sorted(request.features), "unset": removed}
        report_dry_run(answer, f"would say {', '.join(says)}", wish)
        return
    table = target.table()
    if sets:
        report_commit(answer, table.setProperties(dict(sets)), nothing="the table says so already: nothing was written")
    if removed:
        report_commit(answer, table.unsetProperties(removed), nothing="the table does not say it: nothing was written")


def _refuse_unfit(state: DeltaState, sets: dict[str, str], removed: list[str]) -> None:
    """Refuse properties that the table cannot have, before any commit."""
    check_writable(state.protocol, table=state.snapshot.location.url)
    shape = DeltaFormat.definition_of(state)
    if sets:
        set_properties(state.snapshot, shape, sets)
    if removed:
        unset_properties(state.snapshot, shape, removed, if_exists=False)
