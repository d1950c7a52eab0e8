"""Identity itself: which rows are hidden, which id a row has, and where the row with an id is. No I/O."""
