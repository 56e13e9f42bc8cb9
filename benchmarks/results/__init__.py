"""What calibrations and benchmarks gave, a page each, and the command that runs them again."""
