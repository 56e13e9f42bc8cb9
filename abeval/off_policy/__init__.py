"""What a policy would have earned, from the log of a variant that records its propensities."""
