"""Object stores: local files, memory, and cloud storage."""
