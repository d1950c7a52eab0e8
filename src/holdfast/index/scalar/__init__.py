"""Scalar indexes: sorted entries and bitmaps."""
