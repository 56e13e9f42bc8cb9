"""What `benchmarks/results/reliability.md` claims, tried again: `python -m benchmarks.reliability.NAME`."""
