"""Apache Spark: the same queries, translated, and refused where they would mean something else."""
