"""What an experiment's logs add up to: the queries that are run, and the small exact result."""
