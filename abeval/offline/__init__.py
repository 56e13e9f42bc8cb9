"""Models scored offline, on the logs of the experiment: each definition named, with intervals.

`definitions` says what each metric is and `presets` which definitions and policies another library
follows; `replay_log`, `score_log` and `truth_log` write the candidates of a model and their
relevance, `ranking`, `scores` and `beyond` run the queries over them to sums per unit, `inference`
and `judge` make estimates and paired comparisons of those, and `result` holds what came out.
`replay` runs it for an experiment, `evaluate` and `evaluate_log` for frames.
"""
