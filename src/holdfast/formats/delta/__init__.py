"""The Delta format: its log, its protocol and its commits."""
