"""Making, refreshing and asking indexes."""
