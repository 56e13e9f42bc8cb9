"""What a metric is: its terms, its direction, the built-in ones, and the user's own SQL."""
