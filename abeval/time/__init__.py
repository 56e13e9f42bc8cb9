"""What time does to an effect: windows, stability, novelty, peeking, A/A replays."""
