"""The Spark session: starting one, its catalog, its errors, and what travels to its workers."""
