"""Define metrics: their terms, their direction, the built-in ones, and the user's own SQL."""
