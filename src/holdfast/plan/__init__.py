"""Plans: pure functions that decide which files, rows and columns an operation needs."""
