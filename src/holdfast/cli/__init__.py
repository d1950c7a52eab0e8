"""The `holdfast` command: one file per subcommand, loaded when it is asked for.

1. Starting the command imports neither Spark nor any subcommand but the one that runs.
2. A subcommand's module is named in COMMANDS and offers its click command as `command`.
"""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "doctor": "holdfast.cli.doctor",
}


class OnDemand(click.Group):
    """A group whose commands are imported by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = import_module(module).command
        assert isinstance(command, click.Command), f"{module}.command is not a click command"
        return command


@click.group(cls=OnDemand, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast", prog_name="holdfast")
def main() -> None:
    """Row identity for lakehouse tables."""
