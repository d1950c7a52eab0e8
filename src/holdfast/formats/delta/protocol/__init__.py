"""Protocol versions and table features."""
