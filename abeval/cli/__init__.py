"""Run the command line: a thin twin of the Python API."""
