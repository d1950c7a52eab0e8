"""Creating, converting and cloning tables, and changing what a table is."""
