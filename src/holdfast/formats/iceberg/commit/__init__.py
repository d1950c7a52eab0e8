"""One commit attempt on an Iceberg table: manifests, the manifest list and the snapshot."""
