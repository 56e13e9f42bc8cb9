"""Try again what `results/reliability.md` claims: `python -m benchmarks.reliability.NAME`."""
