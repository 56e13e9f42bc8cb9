"""Candidates: the rows of a log, with each model's score and the relevance of each item."""
