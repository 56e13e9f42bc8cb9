"""Models scored offline, on the logs of the experiment: each definition named, with intervals.

`definitions` says what each metric is, `metric_ids` what it is called, `presets` which definitions
and policies another library follows, and `options` what a replay may be asked. `replay_log`,
`score_log` and `truth_log` write the candidates of a model and their relevance; `run` sums every
metric of them per unit, by the queries of `ranking`, `scores` and `beyond` or by `kernels` over
arrays, over the requests that `coverage` finds to be compared. `sums` is the waist. `estimates` and
`pairs` are what statistics make of it (`inference` and `jackknife`, less what `exclusions` leaves
out), `judge` makes the `result`. `replay` runs it for an experiment, `evaluate` and `evaluate_log`
for frames.
"""
