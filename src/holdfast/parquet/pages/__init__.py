"""Single rows taken out of Parquet pages."""
