"""Score models offline on logs: ranking, calibration and diversity metrics, with intervals.

From the logs to the result: `candidates` (rows to rank, with each model's score and the relevance;
`rows` has them as arrays) → `sums` (every metric's sums per unit, by queries or `kernels`) →
`estimates` (values with intervals, models in pairs). `metrics` defines what is summed.
"""
