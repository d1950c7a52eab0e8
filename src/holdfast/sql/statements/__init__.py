"""SQL statements about one of our tables, a file each."""
