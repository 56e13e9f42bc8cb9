"""Estimate which of the rankers that share each list users prefer, from a log of such lists."""
