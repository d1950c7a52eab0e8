"""Append, overwrite, DELETE, UPDATE and MERGE."""
