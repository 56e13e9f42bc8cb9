"""nDCG@10 and GAUC of 200,000 lists of 20: abeval, polars, pytrec_eval, and a group-by.

    python benchmarks/replay.py DIR [--users 200000] [--runs 5] [--without slow]

Writes DIR/log.parquet where there is none. Each side is a whole process, imports included, from
the Parquet file to the printed number, and they run in turns; all must print the same one. What
matters are the ratios of processor time to polars', and of all metrics to one. `abeval` is
`abeval.evaluate_log`, which like the others is told of no experiment, but counts duplicates and
gives an interval clustered by user; `abeval replay` is the whole command, with the units of an
experiment. `--without slow` leaves out pytrec_eval and the group-by, which take minutes and run
once. Needs polars, scikit-learn, pyarrow and pytrec_eval (`pip install pytrec-eval-terrier`).
"""

import argparse
import math
import re
import statistics
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from process import in_turns, medians

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
from abeval.offline.metrics import default_metrics
families = ("list", "r_precision", "pairs")
ranking = [m.id for m in default_metrics([1, 5, 10]) if m.definition.family in families]
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

PYTREC_NDCG = """
import pandas as pd
import pytrec_eval
log = pd.read_parquet("log.parquet", columns=["user_id", "item_id", "click", "score_a"])
log["user_id"], log["item_id"] = log["user_id"].astype(str), log["item_id"].astype(str)
run, truth = {}, {}
columns = (log[c].tolist() for c in ("user_id", "item_id", "click", "score_a"))
for user, item, click, score in zip(*columns):
    run.setdefault(user, {})[item] = score
    truth.setdefault(user, {})[item] = click
truth = {user: judged for user, judged in truth.items() if any(judged.values())}
found = pytrec_eval.RelevanceEvaluator(truth, {"ndcg_cut.10"}).evaluate(run)
print(sum(v["ndcg_cut_10"] for v in found.values()) / len(found))
"""

GROUP_NDCG = """
import pandas as pd
from sklearn.metrics import ndcg_score
log = pd.read_parquet("log.parquet", columns=["user_id", "click", "score_a"])
def ndcg(rows):
    return ndcg_score([rows["click"]], [rows["score_a"]], k=10) if rows["click"].any() else None
print(log.groupby("user_id")[["click", "score_a"]].apply(ndcg).dropna().astype(float).mean())
"""

GROUP_GAUC = """
import pandas as pd
from sklearn.metrics import roc_auc_score
log = pd.read_parquet("log.parquet", columns=["user_id", "click", "score_a"])
above, below = 0.0, 0
for _, rows in log.groupby("user_id"):
    if 0 < rows["click"].sum() < len(rows):
        above += len(rows) * roc_auc_score(rows["click"], rows["score_a"])
        below += len(rows)
print(above / below)
"""


def write_log(file: Path, users: int) -> None:
    """Lists of 20 whose scores and clicks share a latent relevance; 14 % are clicks."""
    rng, length = np.random.default_rng(7), 20
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
    ).to_parquet(file, index=False)


def _chance(logit: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(2.2 - logit))


def commands() -> dict[str, list[str]]:
    """Name → the process."""
    python = [sys.executable, "-c"]
    replay = [sys.executable, "-m", "abeval", "replay", "experiment.toml", "--metric"]
    one = ["['score_a']", "['score_a', 'score_b']"]
    ndcg, gauc = "ndcg@10[bin]", "gauc[impressions]"
    return {
        "ndcg abeval": [*python, EVALUATE.format(scores=one[0], metrics=[ndcg])],
        "ndcg polars": [*python, POLARS_NDCG],
        "ndcg pytrec_eval": [*python, PYTREC_NDCG],
        "ndcg group-by": [*python, GROUP_NDCG],
        "ndcg abeval replay": [*replay, ndcg],
        "gauc abeval": [*python, EVALUATE.format(scores=one[0], metrics=[gauc])],
        "gauc polars": [*python, POLARS_GAUC],
        "gauc group-by": [*python, GROUP_GAUC],
        "gauc abeval replay": [*replay, gauc],
        "all abeval": [*python, ALL + EVALUATE.format(scores=one[1], metrics="ranking")],
    }


def main() -> None:
    """Run every side in turns, print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--without", choices=["slow"], default=None)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if not (options.directory / "log.parquet").exists():
        write_log(options.directory / "log.parquet", options.users)
    (options.directory / "experiment.toml").write_text(EXPERIMENT)
    slow, sides = {}, {}
    for name, command in commands().items():
        (slow if name.endswith(("pytrec_eval", "group-by")) else sides)[name] = command
    costs = in_turns(sides, options.runs, options.directory)
    if options.without is None:
        # Minutes a run need no five of them.
        costs |= in_turns(slow, 1, options.directory)
    cores = {name: statistics.median(c.cores for c in of) for name, of in costs.items()}
    values: dict[str, set[float]] = {}
    for name, seconds in medians(costs).items():
        of, value = costs[name], _value(costs[name][0].printed)
        values.setdefault(name.split()[0], set()).add(value)
        memory = max(cost.megabytes for cost in of)
        print(f"{name:20}{seconds:8.2f} s{cores[name]:8.2f} s of cores{memory:8.0f} MB   {value}")
    if any(len(of) > 1 for of in values.values()):
        raise SystemExit(f"the sides differ: {values}")
    for name in cores:
        metric, _, side = name.partition(" ")
        if side not in ("polars", "") and f"{metric} polars" in cores:
            print(f"{name} / polars, of cores: {cores[name] / cores[f'{metric} polars']:.2f}")
    both = cores["all abeval"] / cores["ndcg abeval"]
    print(f"two models, all metrics at 1, 5, 10 / one nDCG@10, of cores: {both:.2f}")


def _value(printed: str) -> float:
    """The last fraction that a side prints, to the digits that the command shows: of all units."""
    fractions = re.findall(r"\b0\.\d+", printed)
    return round(float(fractions[-1]), 5) if fractions else math.nan


if __name__ == "__main__":
    main()
