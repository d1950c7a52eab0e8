"""Checks of Iceberg metadata against itself and against data files."""
