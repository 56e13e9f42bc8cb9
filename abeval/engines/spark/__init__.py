"""Run the same queries on Apache Spark, or refuse those that would differ."""
