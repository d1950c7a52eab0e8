"""What a Delta log says of earlier versions: commits, pins, vacuums, files that are still needed."""
