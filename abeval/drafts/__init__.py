"""Draft an experiment file for a table: what its columns are likely to be, and how sure."""
