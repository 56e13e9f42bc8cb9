"""Run the command line, a thin layer over the Python API."""
