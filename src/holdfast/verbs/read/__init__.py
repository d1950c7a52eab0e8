"""Scans, and rows by their ids."""
