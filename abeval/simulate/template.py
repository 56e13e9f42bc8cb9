"""The experiment file that goes with a simulated log.

`run.py` writes it as it is into the folder, as `experiment.toml`.
"""

EXPERIMENT = """\
name = "sample"
unit = "user_id"
control = "control"
timezone = "UTC"
alpha = 0.05

[period]
start = 2026-09-14
end = 2026-09-28

[pre_period]
start = 2026-09-07
end = 2026-09-14

[variants.control]
weight = 0.5
model = "baseline"

[variants.treatment]
weight = 0.5
model = "candidate"

[models.baseline]
score = "score_baseline"

[models.candidate]
score = "score_candidate"

[logs.impressions]
path = "impressions/*.parquet"
columns = { ts = "time" }

[logs.clicks]
path = "clicks.parquet"
columns = { ts = "time", dwell = "dwell_ms" }
dwell_unit = "ms"

[logs.items]
path = "items.parquet"

[segments]
device = "device"

[[metrics]]
name = "ctr"
role = "goal"

[[metrics]]
name = "dwell_per_user"
role = "goal"

[[metrics]]
name = "sessions_per_user"
role = "guardrail"
margin = 0.1

[[metrics]]
name = "clicks_per_user"

[[metrics]]
name = "impressions_per_user"

[[metrics]]
name = "page_views_per_user"

[[metrics]]
name = "active_days_per_user"

[[metrics]]
name = "dwell_per_click"

[[metrics]]
name = "dwell_per_impression"

[[metrics]]
name = "long_click_rate"

[[metrics]]
name = "session_length"

[[metrics]]
name = "gauc"

[[metrics]]
name = "auc"

[[metrics]]
name = "q_ctr"

[[metrics]]
name = "ndcg"

[[metrics]]
name = "mrr"

[[metrics]]
name = "map"

[[metrics]]
name = "coverage"

[[metrics]]
name = "gini"

[[metrics]]
name = "entropy"

[[metrics]]
name = "category_diversity"
"""
