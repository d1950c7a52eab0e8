"""Compaction, clustering, vacuum, restore, erasure and checks."""
