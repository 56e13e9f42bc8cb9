"""Some queries of `queries/offline` over arrays: the same sums, faster."""
