"""Metadata files, manifests, partition specs and types of Iceberg tables."""
