"""`DeltaTable` and `IcebergTable`, the objects that users hold."""
