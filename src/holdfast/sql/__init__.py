"""delta-spark's SQL over Holdfast's tables: what a statement asks, read from the user's text, and who carries it out."""
