"""Position deletes, equality deletes and deletion vectors of Iceberg tables."""
