"""The Spark engine: rows read and written by Spark jobs, through PySpark alone."""
