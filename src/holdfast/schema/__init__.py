"""Types, column mapping, properties and constraints of a table."""
