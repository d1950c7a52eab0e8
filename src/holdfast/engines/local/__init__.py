"""The local engine: rows read and written in this process with Arrow."""
