"""Effects over time: windows, stability, novelty, looks, A/A replays on the logs."""
