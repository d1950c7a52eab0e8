"""Parquet data files: reading, writing, statistics."""
