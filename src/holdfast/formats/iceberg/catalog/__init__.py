"""Iceberg catalogs: opening, creating and committing to a table."""
