"""Sums per input file, kept so that a refresh reads only new files; aggregates as files."""
