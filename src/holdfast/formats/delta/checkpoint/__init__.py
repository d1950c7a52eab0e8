"""Checkpoints and checksum files, read and written."""
