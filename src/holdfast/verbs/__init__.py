"""What a table can do, a room per kind of verb."""
