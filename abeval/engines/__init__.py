"""Run the SQL of `queries/`; engines know nothing of statistics."""
