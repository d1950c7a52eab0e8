"""The `_delta_log` directory: listing, reading and replaying it."""
