"""Users with a past: what each did before the period and in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import abeval
from abeval.api import LoadedExperiment
from abeval.stats.moments import Moments


def users(seed: int = 5, n: int = 400) -> pd.DataFrame:
    """One row a user and phase: what each did before and in the period; a third is new."""
    rng = np.random.default_rng(seed)
    taste = rng.gamma(2.0, 2.0, n)
    before = rng.poisson(taste)
    before[rng.random(n) < 1 / 3] = 0
    return pd.DataFrame(
        {
            "user_id": np.arange(n),
            "variant": np.where(rng.random(n) < 0.5, "a", "b"),
            "before": before,
            "during": 1 + rng.poisson(taste),
        }
    )


def log_of(people: pd.DataFrame) -> pd.DataFrame:
    """One row per impression; every third is clicked."""
    parts = []
    for day, column in (("2026-01-01", "before"), ("2026-01-08", "during")):
        rows = people.loc[people.index.repeat(people[column])]
        parts.append(
            rows.assign(ts=pd.Timestamp(day), variant=rows.variant)[["user_id", "variant", "ts"]]
        )
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(click=(frame.index % 3 == 0).astype(int))


def experiment(**entries: Any) -> LoadedExperiment:
    """Two variants, a week before the period, and entries of the test's own."""
    return abeval.define(
        name="cuped",
        unit="user_id",
        control="a",
        period={"start": "2026-01-08", "end": "2026-01-09"},
        pre_period={"start": "2026-01-01", "end": "2026-01-08"},
        variants={"a": {}, "b": {}},
        cleaning={"duplicates": "unchecked"},
        logs={"impressions": {}},
        **entries,
    )


def arms(people: pd.DataFrame, *columns: str) -> list[Moments]:
    """Moments of columns, and of `new`, by variant."""
    new = (people.before == 0).astype(float)
    table = people.assign(new=new)
    return [Moments.of(*(table[table.variant == v][c] for c in columns)) for v in "ab"]
