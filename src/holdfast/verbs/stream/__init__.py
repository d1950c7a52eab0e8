"""Streams from and into a table."""
