"""Plans of DELETE, UPDATE and MERGE."""
