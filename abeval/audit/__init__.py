"""Audit of an assignment: logged variants against the rule, and against other experiments."""
