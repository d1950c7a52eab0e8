"""`holdfast tour`: a guided walk through Holdfast on sample tables."""
