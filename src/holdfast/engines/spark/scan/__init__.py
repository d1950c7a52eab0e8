"""Scans with Spark's own Parquet reader."""
