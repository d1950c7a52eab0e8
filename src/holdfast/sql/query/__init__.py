"""Queries over our tables: each table that a query names becomes a scan."""
