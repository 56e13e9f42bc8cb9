"""How often the check `aa` warns of sound tables, and of tables whose test rejects too often.

Sound: a mean of six kinds of values, or a ratio, at 200 to 5,000 users a variant. Not sound: a
ratio in which ten users have most of the denominator and none of the numerator. Each is a table of
one row a user, through `analyze` as anybody runs it.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.runner import Record, Table
from tests.worlds.experiments import define_experiment

Draw = Callable[[np.random.Generator, int], np.ndarray[Any, Any]]

KINDS: dict[str, Draw] = {
    "normal": lambda random, n: random.normal(10, 3, n),
    "gamma 2": lambda random, n: random.gamma(2, 10, n),
    "gamma .5": lambda random, n: random.gamma(0.5, 10, n),
    "lognormal": lambda random, n: random.lognormal(0, 1, n),
    "counts": lambda random, n: random.poisson(2, n),
    "0 or 1": lambda random, n: (random.random(n) < 0.2).astype(int),
}

SIZES = (200, 500, 1_500, 5_000)
"""Users of each variant."""


def table_of(random: np.random.Generator, units: int) -> pd.DataFrame:
    """Return users of two variants, and nothing else."""
    variant = random.permutation(np.repeat(["a", "b"], units))
    return pd.DataFrame({"user_id": np.arange(2 * units), "variant": variant})


def sound(kind: str, units: int, seed: int) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return a table in which nothing differs, and its metric; of `ratio`, clicks of views."""
    random = np.random.default_rng([seed, 46])
    table = table_of(random, units)
    if kind != "ratio":
        return table.assign(y=KINDS[kind](random, 2 * units)), {"name": "y", "value": "y"}
    views = 1 + random.poisson(random.gamma(2, 3, 2 * units))
    clicks = random.binomial(views, random.beta(2, 8, 2 * units))
    return table.assign(clicks=clicks, views=views), _ratio("clicks")


def heavy(units: int, seed: int) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return a table in which ten users decide, whose test rejects in vain."""
    random = np.random.default_rng([seed, 47])
    table = table_of(random, units)
    views = 1 + np.round(random.lognormal(0, 2, 2 * units)).astype(int)
    clicks = random.binomial(views, 0.3)
    clicks[np.argsort(views)[-10:]] = 0
    return table.assign(gain=5 * clicks - views, views=views), _ratio("gain")


def _ratio(numerator: str) -> dict[str, str]:
    return {"name": "rate", "numerator": numerator, "denominator": "views", "role": "goal"}


def judged(table: pd.DataFrame, metric: dict[str, str]) -> tuple[str, float | None, bool]:
    """Return the status of the check, the share of replays that reject, and if a cap is advised."""
    experiment = define_experiment(logs={"units": {}}, metrics=[metric])
    result = experiment.analyze(logs={"units": table})
    check = next(one for one in result.trust if one.name == "aa")
    rate = result.aa[0].rejection_rate if result.aa else None
    return check.status, rate, check.status == "warn" and "cap = 0.99" in check.remedy


def measure_sound(kind: str, repetitions: int, seed: int) -> Record:
    """Count the warnings of sound tables of a kind, of each size in turn."""
    seeds = range(seed, seed + repetitions)
    cells = [judged(*sound(kind, SIZES[i % len(SIZES)], i)) for i in seeds]
    counts = Counter(status for status, *_ in cells)
    said = {"warned": counts["warn"], "not replayed": counts["skipped"]}
    return {"sound tables": kind, "tables": repetitions, **said, "cap advised": _caps(cells)}


def measure_heavy(units: int, repetitions: int, seed: int) -> Record:
    """Count the warnings of tables in which ten users decide."""
    cells = [judged(*heavy(units, i)) for i in range(seed, seed + repetitions)]
    rates = [rate for _, rate, _ in cells if rate is not None]
    off = [status for status, rate, _ in cells if rate is not None and rate >= 0.1]
    return {
        "ten users decide, users a variant": units,
        "tables": repetitions,
        "mean share rejected, %": float(np.mean(rates)) if rates else math.nan,
        "warned": sum(status == "warn" for status, *_ in cells),
        "cap advised": _caps(cells),
        "reject 10 or more": len(off),
        "of these warned": off.count("warn"),
    }


def _caps(cells: Sequence[tuple[str, float | None, bool]]) -> int:
    return sum(cap for *_, cap in cells)


TABLES = {
    "sound": Table(measure_sound, (*KINDS, "ratio"), repetitions=143),
    "heavy": Table(measure_heavy, SIZES, repetitions=40),
}
