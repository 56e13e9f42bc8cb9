"""What is timed: a module each, for `python -m benchmarks time NAME DIR`."""
