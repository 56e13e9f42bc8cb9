"""Checks of the log by variant: a fault that is not alike in all of them costs the answer."""
