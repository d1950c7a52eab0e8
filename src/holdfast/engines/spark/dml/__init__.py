"""Rows changed, ordered and written by Spark jobs."""
