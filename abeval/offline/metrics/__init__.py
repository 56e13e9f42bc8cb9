"""What each offline metric is, its id, and the presets of other libraries."""
