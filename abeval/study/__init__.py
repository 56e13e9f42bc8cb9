"""All that can be computed of one experiment, for one page."""
