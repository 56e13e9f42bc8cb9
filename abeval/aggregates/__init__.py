"""Add up an experiment's logs: the queries that are run, and the small exact result."""
