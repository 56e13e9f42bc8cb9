"""How often a whole analysis of an A/A experiment finds anything: 900/100 units, five goals.

    python -m benchmarks.calibration.family_wise --experiments 400

Skewed revenue of few buyers, rare and frequent conversions, clicks per user and their rate, through
`analyze` as anybody runs it: any goal better or worse after Holm, and the verdicts.
"""

import argparse
import math
import sys
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import abeval

GOALS = ("revenue", "bought", "clicked", "clicks_per_user", "ctr")


class Outcome(NamedTuple):
    """Of many experiments: how many found anything, by goal, and the verdicts."""

    experiments: int
    any_goal: int
    by_goal: Counter[str]
    refused: Counter[str]
    verdicts: Counter[str]


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


def experiment() -> abeval.LoadedExperiment:
    """Five goals, weights as the units."""
    entries: dict[str, Any] = {
        "name": "nothing differs",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {"weight": 9}, "b": {"weight": 1}},
        "logs": {"impressions": {}},
        "metrics": [
            {"name": "revenue", "value": "price", "role": "goal"},
            {"name": "bought", "value": "price > 0", "per_unit": "any", "role": "goal"},
            {"name": "clicked", "value": "click", "per_unit": "any", "role": "goal"},
            {"name": "clicks_per_user", "role": "goal"},
            {"name": "ctr", "role": "goal"},
        ],
        "trust": {"aa_runs": 0},
        "engine": {"threads": 1},
    }
    return abeval.define(**entries)


def outcome(experiments: int, seed: int = 0) -> Outcome:
    """Whole analyses of so many experiments."""
    loaded, any_goal = experiment(), 0
    by_goal, refused, verdicts = Counter[str](), Counter[str](), Counter[str]()
    for one in range(experiments):
        result = loaded.analyze(logs={"impressions": log_of(seed + one)})
        hits = [
            r.metric for r in result.scorecard if r.p_adjusted is not None and r.p_adjusted < 0.05
        ]
        any_goal += bool(hits)
        by_goal.update(hits)
        refused.update(r.metric for r in result.scorecard if r.p_value is None)
        verdicts[result.verdicts[0].decision] += 1
    return Outcome(experiments, any_goal, by_goal, refused, verdicts)


def main() -> None:
    """Print what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.family_wise")
    parser.add_argument("--experiments", type=int, default=400)
    options = parser.parse_args()
    all_of = outcome(options.experiments)
    share = all_of.any_goal / all_of.experiments
    error = math.sqrt(share * (1 - share) / all_of.experiments)
    sys.stdout.write(f"any goal after Holm: {100 * share:.1f} ± {100 * error:.1f} %\n")
    sys.stdout.write(
        f"by goal: {dict(all_of.by_goal)}\nwithout an answer: {dict(all_of.refused)}\n"
    )
    sys.stdout.write(f"verdicts: {dict(all_of.verdicts)}\n")


if __name__ == "__main__":
    main()
