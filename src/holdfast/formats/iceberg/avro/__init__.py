"""Avro object containers, read into Arrow and written."""
