"""Spark SQL expressions evaluated on Arrow batches."""
