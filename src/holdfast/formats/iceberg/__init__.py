"""The Iceberg format: metadata to a snapshot, and a mutation to one commit attempt."""
