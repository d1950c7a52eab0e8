"""Vector indexes: training, filling and searching."""
