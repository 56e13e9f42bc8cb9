"""nDCG@10 and GAUC of 200,000 lists of 20: abeval beside polars, which must say the same.

`abeval` is `evaluate_log`, which like polars is told of no experiment, but counts duplicates and
gives an interval clustered by user; `abeval replay` is the whole command, with the units of an
experiment. What matters are the ratios of processor time to polars', and of all metrics to one.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.timing import ABEVAL

SIZE = 200_000
EXPERIMENT = """
name = "replay"
unit = "user_id"
control = "control"
[variants.control]
model = "a"
[variants.treatment]
model = "a"
[models.a]
score = "score_a"
[logs.impressions]
path = "log.parquet"
"""

EVALUATE = """
from abeval.offline.evaluate import JudgedColumns, evaluate_log
columns = JudgedColumns("user_id", None, "item_id", "click")
evaluation = evaluate_log("log.parquet", {scores}, columns=columns, metrics={metrics})
print(evaluation.result.rows[0].value)
"""

ALL = """
from abeval.offline.metrics import list_default_metrics
families = ("list", "pairs")
ranking = [m.id for m in list_default_metrics([1, 5, 10]) if m.definition.family in families]
"""

POLARS_NDCG = """
import math
import polars as pl
totals = [0.0]
for place in range(1, 11):
    totals.append(totals[-1] + 1 / math.log2(1 + place))
rows = pl.scan_parquet("log.parquet").select("user_id", "click", "score_a")
placed = rows.with_columns(
    place=pl.col("score_a").rank("ordinal", descending=True).over("user_id")
).filter(pl.col("click") > 0)
gain = pl.when(pl.col("place") <= 10).then(1 / (pl.col("place") + 1).log(2)).otherwise(0.0)
lists = placed.group_by("user_id").agg(dcg=gain.sum(), relevant=pl.len())
ideal = pl.col("relevant").clip(upper_bound=10).replace_strict(
    list(range(11)), totals, return_dtype=pl.Float64
)
print(lists.select((pl.col("dcg") / ideal).mean()).collect().item())
"""

POLARS_GAUC = """
import polars as pl
rows = pl.scan_parquet("log.parquet").select("user_id", "click", "score_a")
ranked = rows.with_columns(rank=pl.col("score_a").rank("average").over("user_id"))
users = ranked.group_by("user_id").agg(
    n=pl.len().cast(pl.Float64), p=pl.col("click").sum().cast(pl.Float64),
    ranks=(pl.col("rank") * pl.col("click")).sum(),
).filter((pl.col("p") > 0) & (pl.col("p") < pl.col("n")))
n, p = pl.col("n"), pl.col("p")
auc = (pl.col("ranks") - p * (p + 1) / 2) / (p * (n - p))
print(users.select((auc * n).sum() / n.sum()).collect().item())
"""


def write_log(folder: Path, size: int) -> None:
    """Write lists of 20 whose scores and clicks share a latent relevance; 14 % are clicks."""
    users, rng, length = size, np.random.default_rng(7), 20
    steps = np.cumsum(rng.integers(1, 500, (users, length)), axis=1)
    items = (rng.integers(0, 50_000, users)[:, None] + steps) % 50_000
    relevance = rng.normal(size=(users, length)) + 0.5 * rng.normal(size=(users, 1))
    noise = 0.8 * rng.normal(size=(2, users, length))
    user = np.repeat(np.arange(users), length)
    pd.DataFrame(
        {
            "user_id": user,
            "item_id": items.ravel(),
            "position": np.tile(np.arange(1, length + 1), users),
            "variant": np.where(user % 2 == 0, "control", "treatment"),
            "click": (rng.random((users, length)) < _chance(relevance)).astype(np.int8).ravel(),
            "score_a": _chance(0.6 * relevance + noise[0]).ravel(),
            "score_b": _chance(0.9 * relevance + noise[1]).ravel(),
        }
    ).to_parquet(folder / "log.parquet", index=False)


def _chance(logit: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(2.2 - logit))


def list_commands(folder: Path) -> dict[str, list[str]]:
    """List each metric by each side, and all metrics of two models."""
    (folder / "experiment.toml").write_text(EXPERIMENT)
    python = [sys.executable, "-c"]
    replay = [*ABEVAL, "replay", "experiment.toml", "--metric"]
    commands = {}
    for metric, polars in (("ndcg@10[bin]", POLARS_NDCG), ("gauc[impressions]", POLARS_GAUC)):
        evaluate = EVALUATE.format(scores="['score_a']", metrics=[metric])
        commands[f"{metric} abeval"] = [*python, evaluate]
        commands[f"{metric} polars"] = [*python, polars]
        commands[f"{metric} abeval replay"] = [*replay, metric]
    models = EVALUATE.format(scores="['score_a', 'score_b']", metrics="ranking")
    return {**commands, "all abeval": [*python, ALL + models]}
