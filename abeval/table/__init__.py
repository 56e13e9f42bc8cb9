"""Turn a table of one row a unit, or of sums, into the entries of its experiment."""
