"""Models scored offline on logs: ranking, calibration and diversity metrics, with intervals.

`metrics` defines the metrics, their ids and the presets of other libraries. `candidates` makes the
rows to rank from the logs: each model's score of each item, and the item's relevance. `sums` adds
up every metric per unit, by queries or by `kernels` over arrays. `estimates` turns the sums into
values with intervals, compares models in pairs, and makes the result. `options` has the options of
a replay, `replay` runs it for an experiment, `evaluate` and `evaluate_log` for frames and tables.
"""
