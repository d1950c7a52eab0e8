"""Programs that two engines run step by step: delta-spark itself, and Holdfast in its place.

What a user could notice of a step is compared: rows, names, types and nullability of columns, the class and the
condition of what is raised, and, when a program is over, the history, details and properties of the tables it made.

    python -m tests.dropin.differential [WORD...]            # the programs whose names have one of the words
    python -m tests.dropin.differential --random [COUNT]     # programs made up on the spot

1. Both engines run in the environment of the peers, on the same Spark.
2. A difference that is meant to be stands beside its step, with the reason. One that is not found fails too.
"""
