"""Define metrics: terms, directions, the built-in ones, and users' SQL."""
