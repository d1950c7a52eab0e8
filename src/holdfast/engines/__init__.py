"""The two engines that read and write rows: Spark, and this process with Arrow."""
