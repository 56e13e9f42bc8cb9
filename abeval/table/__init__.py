"""A table of one row a unit, or of sums, as the entries of its experiment."""
