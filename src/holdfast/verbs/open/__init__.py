"""Opening a table: the handle, the format and the versions it can be read at."""
