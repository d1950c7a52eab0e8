"""Plans of change queries and streams."""
