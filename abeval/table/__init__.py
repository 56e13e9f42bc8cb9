"""Make an experiment of a table of units, of sums or of counts."""
