"""Hold results as frozen records, and how their numbers are written."""
