"""Sum an experiment's logs to the small, exact numbers that statistics need."""
