"""Score models offline on logs, with intervals.

Metrics are of ranking, calibration and diversity.

From the logs to the result: `candidates` (numbered rows to rank, with each model's score and the
relevance) → `sums` (every metric's sums per unit, by queries) → `estimates` (values with intervals,
models in pairs; `groups` without single groups of units). `metrics` defines what is summed;
`inputs` reads lists and truths of one's own.
"""
