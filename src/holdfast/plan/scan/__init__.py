"""Plans of scans: pruning, columns and row location."""
