"""One commit attempt on a Delta table, and what a commit makes due."""
