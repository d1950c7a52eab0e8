"""`holdfast doctor`: what this machine can run."""
