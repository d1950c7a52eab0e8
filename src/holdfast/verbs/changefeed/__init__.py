"""Change queries, the change data feed and row biographies."""
