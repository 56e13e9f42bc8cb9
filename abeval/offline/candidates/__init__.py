"""What is ranked: the rows of a log, with the score of each model and what was relevant."""
