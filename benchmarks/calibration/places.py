"""Does `srm` name where units were lost, and does it stay silent where none were?

24,000 users enter over ten days, on three devices; units of one variant are lost in some way, and
`abeval analyze --checks` runs on what is left. `named` is the share of the experiments whose `srm`
warns or fails and names the right dimension and cell; `first` is that of those in which the right
dimension is the first of `split_places`, whatever the split of all units says; `seen` is that of
those in which the test that may be read at any time (p < .01) sees it.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.results.analysis import CheckResult
from abeval.stats.records import Bools, Floats
from benchmarks.runner import Record, Table
from tests.worlds.experiments import define_experiment

USERS = 24_000
START = pd.Timestamp("2026-09-14")
HOURS = pd.date_range("2026-09-18 10:00", periods=4, freq="h")


class Loss(NamedTuple):
    """Which units of the treatment are lost, and how that must be named.

    Attributes:
        lost: From the log and a uniform number of each unit.
        dimension: The first of `split_places`; empty where it is alike everywhere.
        cells: One of these is the worst cell.
        words: The message has them; empty where there is nothing to say.
    """

    lost: Callable[[pd.DataFrame, Floats], "pd.Series[bool]"]
    dimension: str
    cells: tuple[str, ...]
    words: str


LOSSES: Mapping[str, Loss] = {
    "nothing is lost": Loss(lambda log, u: log["ts"] < START, "", (), ""),
    "15 % on one device": Loss(
        lambda log, u: (log["device"] == "ios") & (u < 0.15), "device", ("ios",), "device = 'ios'"
    ),
    "12 % on the last three of ten days": Loss(
        lambda log, u: (log["ts"] >= "2026-09-21") & (u < 0.12),
        "entry day",
        ("2026-09-21", "2026-09-22", "2026-09-23"),
        "2026-09-2",
    ),
    "35 % at three hours of each day": Loss(
        lambda log, u: log["ts"].dt.hour.isin([3, 4, 5]) & (u < 0.35),
        "hour of the day",
        ("03:00", "04:00", "05:00"),
        "hour of the day 0",
    ),
    "all in four hours of one day": Loss(
        lambda log, u: log["ts"].isin(HOURS),
        "entry hour",
        tuple(str(hour)[:16] for hour in HOURS),
        "entry hour 2026-09-18",
    ),
    "5 % everywhere": Loss(lambda log, u: pd.Series(u < 0.05), "", (), "in all segments"),
}


def log_of(loss: Loss, seed: int) -> pd.DataFrame:
    """One impression a user, without the units of variant b that are lost."""
    random = np.random.default_rng(seed)
    hours = random.integers(0, 240, USERS)
    log = pd.DataFrame(
        {
            "user_id": np.arange(USERS),
            "variant": random.choice(["a", "b"], USERS),
            "ts": START + pd.to_timedelta(hours, unit="h"),
            "device": random.choice(["ios", "android", "web"], USERS, p=[0.3, 0.5, 0.2]),
        }
    )
    lost: Bools = loss.lost(log, random.random(USERS)).to_numpy(bool)
    return log[~(lost & (log["variant"] == "b").to_numpy())]


def checked(log: pd.DataFrame) -> CheckResult:
    """What the checks say."""
    experiment = define_experiment(
        logs={"impressions": {}},
        segments={"device": "device"},
        metrics=[{"name": "impressions_per_user"}],
    )
    return experiment.check(logs={"impressions": log})


def outcome(loss: Loss, result: CheckResult) -> tuple[bool, bool, bool]:
    """Whether the loss is named, is first, and is seen by the running test.

    A change that is plain enough (p < 1e-6) is found as one: then `split` names its first day.
    """
    said = " ".join(
        c.message for c in result.trust if c.name in ("srm", "split") and c.status != "pass"
    )
    named = loss.words in said if loss.words else not said
    if not result.split_places:
        return (named, any(cell in said for cell in loss.cells), True)
    top, seen = result.split_places[0], result.split_days[-1].p_value < 0.01
    if not loss.dimension:
        return (named, top.p_value >= 0.01, seen)
    first = top.dimension == loss.dimension and top.worst in loss.cells and top.p_value < 0.01
    return (named, first, seen)


def measure_loss(name: str, repetitions: int, seed: int) -> Record:
    """Count how often a loss is named, first and seen."""
    loss, seeds = LOSSES[name], range(seed, seed + repetitions)
    outcomes = [outcome(loss, checked(log_of(loss, i))) for i in seeds]
    counts = dict(zip(("named", "first", "seen"), np.sum(outcomes, axis=0).tolist(), strict=True))
    return {"loss": name, **counts, "of": repetitions}


TABLES = {"losses": Table(measure_loss, tuple(LOSSES), repetitions=100)}
