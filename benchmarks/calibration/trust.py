"""Calibration of the trust checks: false alarms over all of them together, on sound logs.

    python -m benchmarks.calibration.trust --experiments 1000
    python -m benchmarks.calibration.trust --experiments 1000 --lift 0.3 --lists 0.1

Each experiment is a log of some 40,000 impressions with a click log, two segments, a pre-period and
20 metrics (a goal, two guardrails), through the whole analysis. With `--lift` the treatment gets
that many more clicks, they come that much later, and as large a share of its items is of another
catalogue; with `--lists` its lists are longer as well. Both move what ratios divide by. Then
`denominators` says what is true: it is no false alarm, and is counted apart.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

import abeval
from abeval.results import Check

METRICS = (
    "ctr",
    "clicks_per_user",
    "impressions_per_user",
    "page_views_per_user",
    "active_days_per_user",
    "dwell_per_user",
    "dwell_per_click",
    "dwell_per_impression",
    "long_click_rate",
    "dwell_p50",
    "sessions_per_user",
    "session_length",
    "gauc",
    "auc",
    "q_ctr",
    "ndcg",
    "mrr",
    "map",
    "category_diversity",
    "coverage",
)
GUARDRAIL = {"role": "guardrail", "margin": 0.05}
ROLES: Mapping[str, Mapping[str, object]] = {
    "ctr": {"role": "goal"},
    "dwell_per_click": GUARDRAIL,
    "dwell_per_user": GUARDRAIL,
}
USERS = 2_600
DAYS, BEFORE = 7, 4
START = pd.Timestamp("2026-03-02")


class World(NamedTuple):
    """What the treatment does: the lift of clicks, and the share by which lists are longer."""

    lift: float = 0.0
    lists: float = 0.0

    @property
    def true_alarms(self) -> frozenset[str]:
        """Checks whose warning is true here: the treatment does move what ratios divide by."""
        return frozenset({"denominators"} if self.lift or self.lists else ())


def log_of(world: World, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Impressions and clicks of users with habits: how often they come, what they like."""
    random = np.random.default_rng(seed)
    treated = random.random(USERS) < 0.5
    visits = 1 + random.negative_binomial(1.2, 0.4, USERS)
    user = np.repeat(np.arange(USERS), visits)
    arrival = random.integers(-BEFORE, DAYS, USERS)
    day = np.minimum(arrival[user] + random.integers(0, DAYS + BEFORE, user.size), DAYS - 1)
    hour = np.clip(random.normal(15, 4, user.size), 0, 23.9)
    length = 3 + random.poisson(3.0 * (1 + world.lists * (treated[user] & (day >= 0))))
    request = np.repeat(np.arange(user.size), length)
    who, when = user[request], day[request]
    position = np.arange(request.size) - np.repeat(np.cumsum(length) - length, length) + 1
    item = random.zipf(1.3, request.size) % 400
    item += 400 * (treated[who] & (when >= 0) & (random.random(request.size) < world.lift))
    score = np.round(random.beta(2, 4, request.size), 3)
    liking = random.gamma(2.0, 0.5, USERS)
    moved = np.where(treated[who] & (when >= 0), 1 + world.lift, 1.0)
    chance = 0.35 * liking[who] * (0.3 + score) * moved / (1 + 0.15 * position)
    seconds = (day * 86_400 + hour * 3_600)[request] + position
    log = pd.DataFrame(
        {
            "impression_id": np.arange(request.size),
            "user_id": who,
            "variant": np.where(treated[who], "b", "a"),
            "ts": (START + pd.to_timedelta(np.round(seconds, 3), unit="s")).as_unit("ms"),
            "request_id": request,
            "position": position,
            "item_id": item,
            "category": (item % 7).astype(str),
            "score": score,
            "device": np.array(["phone", "desktop", "tablet"])[who % 10 // 6 + (who % 10 > 8)],
            "scene": np.array(["home", "search", "item"])[random.integers(0, 3, USERS)[who]],
        }
    )
    clicks = log.loc[
        random.random(request.size) < chance, ["impression_id", "ts", "user_id"]
    ].copy()
    delay = random.lognormal(2.5, 1.0, len(clicks)) * moved[clicks.index]
    clicks["ts"] += pd.to_timedelta(np.round(delay, 3), unit="s")
    clicks["dwell"] = np.round(random.lognormal(2.8, 1.1, len(clicks)), 1)
    return log, clicks


def checks_of(world: World, seed: int) -> tuple[Check, ...]:
    """The checks of one experiment, with the defaults of the experiment file."""
    log, clicks = log_of(world, seed)
    start, middle, end = (START + pd.Timedelta(days=n) for n in (-BEFORE, 0, DAYS))
    loaded = abeval.define(
        ".",
        name=f"sound_{seed}",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        period={"start": str(middle), "end": str(end)},
        pre_period={"start": str(start), "end": str(middle)},
        segments={"device": "device", "scene": "scene"},
        logs={"impressions": {}, "clicks": {}},
        metrics=[{"name": name, **ROLES.get(name, {})} for name in METRICS],
        engine={"threads": 1},
    )
    return loaded.analyze(logs={"impressions": log, "clicks": clicks}).trust


def tally(world: World, experiments: int, seed: int) -> Iterator[tuple[int, Counter[str]]]:
    """After each experiment their number, and how many had a failed or warning check, by name."""
    counts: Counter[str] = Counter()
    for i in range(experiments):
        checks = checks_of(world, seed + i)
        failed = {c.name.partition(":")[0] for c in checks if c.status == "fail"}
        alarms = {c.name.partition(":")[0] for c in checks if c.status in ("warn", "fail")}
        counts.update(f"{name} fails" for name in failed)
        counts.update(f"{name} warns" for name in alarms - failed)
        counts["FALSE: any fails"] += bool(failed)
        counts["FALSE: any warns or fails"] += bool(alarms - world.true_alarms)
        counts["true: what ratios divide by has moved"] += bool(alarms & world.true_alarms)
        yield i + 1, counts


def main() -> None:
    """Print the shares of experiments with an alarm."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.trust")
    parser.add_argument("--experiments", type=int, default=300)
    parser.add_argument("--lift", type=float, default=0.0, help="of the clicks in treatment")
    parser.add_argument("--lists", type=float, default=0.0, help="by which lists are longer")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    world = World(options.lift, options.lists)
    for number, counts in tally(world, options.experiments, options.seed):
        if number % 25 == 0 or number == options.experiments:
            shares = ", ".join(f"{n} {c / number:.2%}" for n, c in sorted(counts.items()))
            sys.stdout.write(f"{number} experiments: {shares}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
