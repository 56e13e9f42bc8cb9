"""Models scored offline, on the logs of the experiment: each definition named, with intervals.

`definitions` says what each metric is and `presets` which definitions and policies another library
follows; `views` writes the candidates of a model, `ranking` and `scores` run the queries over them
to sums per unit, `inference` makes estimates and paired comparisons of those, and `result` holds
what came out. `replay` runs it for an experiment, `evaluate` for frames.
"""
