"""Logs of impressions and of clicks that name no impression, and the CTR by pandas."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

DAY = 86_400
KEYS = ["user", "item"]


class World(NamedTuple):
    """Rows as they happened, times in whole seconds since 1970."""

    impressions: pd.DataFrame
    clicks: pd.DataFrame


def world(seed: int = 3, users: int = 300, rows: int = 6_000, items: int = 40) -> World:
    """Few items, which units see again; clicks before, after, late, twice, of nothing."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, users, rows)
    variant = np.where(np.arange(users) % 2 == 0, "control", "new")
    start = int(pd.Timestamp("2026-07-01").timestamp())
    seen = pd.DataFrame(
        {
            "user": user,
            "item": rng.integers(1, items, rows),
            # Whole minutes, so that many times are equal.
            "time": start + rng.integers(0, 7 * 24 * 60, rows) * 60,
            "variant": variant[user],
            "position": rng.integers(1, 11, rows),
        }
    )
    is_clicked = rng.random(rows) < np.where(seen.variant == "new", 0.13, 0.1)
    clicks = seen.loc[is_clicked, [*KEYS, "time"]]
    after = rng.choice([0, 5, 40, 3_000, 30 * 3_600], len(clicks), p=[0.1, 0.5, 0.2, 0.17, 0.03])
    clicks = clicks.assign(time=clicks.time + after)
    stray = pd.DataFrame(
        {
            "user": rng.integers(0, users + 50, 60),
            "item": rng.integers(1, items + 10, 60),
            "time": start - 3_600 + rng.integers(0, 8 * DAY, 60),
        }
    )
    clicks = pd.concat([clicks, clicks[:50].assign(time=lambda c: c.time + 1), stray])
    dwell = rng.lognormal(9, 1, len(clicks)).round(0)
    return World(seen, clicks.assign(dwell=dwell).sample(frac=1, random_state=1))


def true_ctr(world: World, hours: float = 24) -> pd.Series:
    """CTR of each variant: the last impression of the user and item before a click has it."""
    seen = world.impressions.drop_duplicates().sort_values("time")
    times = seen.drop_duplicates([*KEYS, "time"]).assign(shown=lambda s: s.time)
    tied = pd.merge_asof(
        world.clicks.sort_values("time"), times[[*KEYS, "time", "shown"]], on="time", by=KEYS
    )
    tied = tied[tied.time - tied.shown <= hours * 3_600]
    many = seen.groupby([*KEYS, "time"]).size()
    clicked = tied.groupby([*KEYS, "shown"]).size().index
    once = [key for key in clicked if many[key] == 1]
    variants = seen.groupby("user").variant.first()
    by_variant = variants.loc[[user for user, *_ in once]].value_counts()
    return (by_variant / seen.variant.value_counts()).sort_index()


def iso(time: pd.Series) -> pd.Series:
    return pd.to_datetime(time, unit="s")


def written(folder: Path, **frames: pd.DataFrame) -> list[Path]:
    """Write frames as CSV, or as Parquet where the name ends in `_pq`."""
    files = []
    for name, frame in frames.items():
        is_parquet = name.endswith("_pq")
        file = folder / f"{name.removesuffix('_pq')}.{'parquet' if is_parquet else 'csv'}"
        frame.to_parquet(file) if is_parquet else frame.to_csv(file, index=False)
        files.append(file)
    return files
