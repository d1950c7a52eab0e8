"""delta-spark's surface without its JAR: what pipelines import, read, write and say in SQL, carried out by Holdfast."""
