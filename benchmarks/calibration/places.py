"""Does `srm` name where units were lost, and does it stay silent where none were?

    python -m benchmarks.calibration.places --seeds 100

24,000 users enter over ten days, on three devices; units of one variant are lost in some way, and
`abeval analyze --checks` runs on what is left. `named` is the share of the experiments whose `srm`
warns or fails and names the right dimension and cell; `first` is that of those in which the right
dimension is the first of `split_places`, whatever the split of all units says; `seen` is that of
those in which the test that may be read at any time (p < .01) sees it.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

import abeval
from abeval.results.analysis import CheckResult
from abeval.stats.records import Bools, Floats

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
    experiment = abeval.define(
        ".",
        name="places",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"impressions": {}},
        segments={"device": "device"},
        metrics=[{"name": "impressions_per_user"}],
        engine={"threads": 1},
    )
    return experiment.check(logs={"impressions": log})


class Outcome(NamedTuple):
    """What became of one experiment."""

    named: bool
    first: bool
    seen: bool


def outcome(loss: Loss, result: CheckResult) -> Outcome:
    """Whether the loss is named, is first, and is seen by the running test.

    A change that is plain enough (p < 1e-6) is found as one: then `split` names its first day.
    """
    said = " ".join(
        c.message for c in result.trust if c.name in ("srm", "split") and c.status != "pass"
    )
    named = loss.words in said if loss.words else not said
    if not result.split_places:
        return Outcome(named, any(cell in said for cell in loss.cells), True)
    top, seen = result.split_places[0], result.split_days[-1].p_value < 0.01
    if not loss.dimension:
        return Outcome(named, top.p_value >= 0.01, seen)
    first = top.dimension == loss.dimension and top.worst in loss.cells and top.p_value < 0.01
    return Outcome(named, first, seen)


def main() -> None:
    """Print one line a loss."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.places")
    parser.add_argument("--seeds", type=int, default=100)
    options = parser.parse_args()
    for name, loss in LOSSES.items():
        outcomes = [outcome(loss, checked(log_of(loss, seed))) for seed in range(options.seeds)]
        shares = (
            f"{field} {sum(o[i] for o in outcomes)}" for i, field in enumerate(Outcome._fields)
        )
        sys.stdout.write(f"{name}: {', '.join(shares)} of {options.seeds}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
