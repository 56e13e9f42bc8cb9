"""How often a whole analysis of an A/A experiment finds anything: 900/100 units, five goals.

Skewed revenue of few buyers, rare and frequent conversions, clicks per user and their rate, through
`analyze` as anybody runs it: any goal better or worse after Holm, and the verdicts.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks.runner import Record, Table, write_share
from tests.worlds.experiments import define_experiment

GOALS = (
    {"name": "revenue", "value": "price"},
    {"name": "bought", "value": "price > 0", "per_unit": "any"},
    {"name": "clicked", "value": "click", "per_unit": "any"},
    {"name": "clicks_per_user"},
    {"name": "ctr"},
)


def log_of(seed: int, units: tuple[int, int] = (900, 100)) -> pd.DataFrame:
    """One to many impressions a user, whose habits differ; some buy."""
    random = np.random.default_rng([seed, 31])
    n = sum(units)
    shown = 1 + random.poisson(random.lognormal(1, 0.8, n))
    user = np.repeat(np.arange(n), shown)
    taste = random.beta(1.5, 13.5, n)[user]
    click = random.random(user.size) < taste
    bought = click & (random.random(user.size) < 0.4)
    price = np.where(bought, random.lognormal(2, 1, user.size).round(2), 0.0)
    return pd.DataFrame(
        {
            "user_id": user,
            "variant": np.where(user < units[0], "a", "b"),
            "ts": pd.Timestamp("2027-03-01 12:00")
            + pd.to_timedelta(random.integers(0, 600, user.size), "m"),
            "item_id": random.integers(0, 99, user.size),
            "click": click.astype(int),
            "price": price,
        }
    )


def measure_goals(_: str, repetitions: int, seed: int) -> Iterator[Record]:
    """Count whole analyses that find anything after Holm, by goal, and their verdicts."""
    experiment = define_experiment(
        variants={"a": {"weight": 9}, "b": {"weight": 1}},
        logs={"impressions": {}},
        metrics=[{**goal, "role": "goal"} for goal in GOALS],
        trust={"aa_runs": 0},
    )
    found, refused, verdicts = Counter[str](), Counter[str](), Counter[str]()
    for i in range(seed, seed + repetitions):
        result = experiment.analyze(logs={"impressions": log_of(i)})
        hits = [r.metric for r in result.scorecard if (r.p_adjusted or 1) < 0.05]
        found.update([*hits, *(["any goal"] if hits else [])])
        refused.update(r.metric for r in result.scorecard if r.p_value is None)
        verdicts[result.verdicts[0].decision] += 1
    for name in ("any goal", *(str(goal["name"]) for goal in GOALS)):
        share = write_share(found[name], repetitions)
        yield {"found": name, "after Holm, %": share, "without an answer": refused[name]}
    for verdict, count in sorted(verdicts.items()):
        share = write_share(count, repetitions)
        yield {"found": f"verdict: {verdict}", "after Holm, %": share, "without an answer": ""}


TABLES = {"goals": Table(measure_goals, ("900/100",), repetitions=400)}
