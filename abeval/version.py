"""Define the version of abeval."""

__version__ = "0.1.0"
