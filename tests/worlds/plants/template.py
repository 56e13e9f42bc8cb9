"""The experiment file that goes with a log with a planted cause; it is the same for every cause."""

EXPERIMENT = """\
name = "planted"
unit = "user_id"
control = "control"
timezone = "UTC"
alpha = 0.05

[period]
start = 2026-09-14
end = 2026-09-28

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

[logs.training]
path = "training.parquet"
columns = { ts = "time" }

[cuts]
surface = "surface"

[agreement]
served_score = "served_score"
latency = "latency_ms"
model_version = "model_version"
model_time = "model_trained"
feature_time = "features_written"
features = ["history", "freshness", "recent_clicks"]
treated = "scene = 'feed'"

[[events]]
name = "promotion"
start = 2026-09-22
end = 2026-09-24

[[metrics]]
name = "ctr"
role = "goal"

[[metrics]]
name = "clicks_per_user"

[[metrics]]
name = "impressions_per_user"

[[metrics]]
name = "auc"

[[metrics]]
name = "gauc"

[[metrics]]
name = "q_ctr"
"""
