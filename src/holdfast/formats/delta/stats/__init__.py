"""File statistics in a Delta log."""
