"""Calibration of the trust checks: false alarms over all of them together, on sound logs.

Each experiment is a log of some 40,000 impressions with a click log, two segments, a pre-period and
20 metrics (a goal, two guardrails), through the whole analysis. With a lift the treatment gets
that many more clicks, they come that much later, and as large a share of its items is of another
catalogue; its lists are longer as well. Both move what ratios divide by. Then
`denominators` says what is true: it is no false alarm, and is counted apart.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.results.trust import Check
from benchmarks.runner import Record, Table
from tests.worlds.experiments import define_experiment

METRICS = (
    *("ctr", "clicks_per_user", "impressions_per_user", "page_views_per_user"),
    *("active_days_per_user", "dwell_per_user", "dwell_per_click", "dwell_per_impression"),
    *("long_click_rate", "dwell_p50", "sessions_per_user", "session_length", "gauc", "auc"),
    *("q_ctr", "ndcg", "mrr", "map", "category_diversity", "coverage"),
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
    loaded = define_experiment(
        period={"start": str(middle), "end": str(end)},
        pre_period={"start": str(start), "end": str(middle)},
        segments={"device": "device", "scene": "scene"},
        logs={"impressions": {}, "clicks": {}},
        metrics=[{"name": name, **ROLES.get(name, {})} for name in METRICS],
    )
    return loaded.analyze(logs={"impressions": log, "clicks": clicks}).trust


def measure_alarms(world: World, repetitions: int, seed: int) -> Iterator[Record]:
    """Count the sound experiments of a world in which a check fails or warns, by its name."""
    counts = Counter[str]()
    # The treatment does move what ratios divide by.
    true = {"denominators"} if world != World() else set[str]()
    for i in range(seed, seed + repetitions):
        checks = checks_of(world, i)
        failed = {c.name.partition(":")[0] for c in checks if c.status == "fail"}
        alarms = {c.name.partition(":")[0] for c in checks if c.status in ("warn", "fail")}
        counts.update(f"`{name}` fails" for name in failed)
        counts.update(f"`{name}` warns" for name in alarms - failed)
        counts["false: any fails"] += bool(failed)
        counts["false: any warns or fails"] += bool(alarms - true)
        counts["true: what ratios divide by has moved"] += bool(alarms & true)
    for name, count in sorted(counts.items()):
        share = count / repetitions
        yield {"lift": world.lift, "alarm": name, "experiments": repetitions, "share, %": share}


WORLDS = (World(), World(lift=0.3, lists=0.1))
TABLES = {"alarms": Table(measure_alarms, WORLDS, digits=2)}
