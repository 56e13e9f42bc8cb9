"""Apache Spark: runs the same queries, or refuses those that it would answer differently."""
