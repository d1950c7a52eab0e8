"""delta-spark's SQL over Holdfast's tables: what a statement asks, read from its text, and who carries it out."""
