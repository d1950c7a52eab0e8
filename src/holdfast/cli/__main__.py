"""`python -m holdfast.cli` is the `holdfast` command."""

from __future__ import annotations

from holdfast.cli import main

main(prog_name="holdfast")
