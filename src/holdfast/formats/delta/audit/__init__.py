"""Checks of a Delta log against itself."""
