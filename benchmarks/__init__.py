"""What abeval costs, and whether it keeps its promises: run by hand, not part of the package."""
