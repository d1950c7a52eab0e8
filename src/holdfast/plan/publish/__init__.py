"""Plans of publications."""
