"""What the snapshots of an Iceberg table say of earlier versions."""
