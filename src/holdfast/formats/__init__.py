"""The table formats: metadata to a snapshot, and a mutation to one commit attempt."""
