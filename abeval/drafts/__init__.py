"""Draft an experiment file: guess what the columns of files are, and how surely."""
