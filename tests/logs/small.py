"""A small honest log, and the shortest way to analyse one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.results.analysis import Result

START = pd.Timestamp("2024-03-01")
DAYS = 3
PERIOD = {"start": "2024-03-01", "end": "2024-03-04"}


def small_log(rows: int = 240, units: int = 24, seed: int = 0) -> pd.DataFrame:
    """Requests of five positions, units alternating between `a` and `b`."""
    random = np.random.default_rng(seed)
    request = np.arange(rows) // 5
    unit = random.integers(0, units, rows)[request]
    seconds = random.integers(0, DAYS * 86_400, rows)[request] + np.arange(rows) % 5
    return pd.DataFrame(
        {
            "user_id": unit,
            "variant": np.where(unit % 2 == 0, "a", "b"),
            "ts": (START + pd.to_timedelta(seconds, unit="s")).as_unit("ms"),
            "request_id": request,
            "position": np.arange(rows) % 5 + 1,
            "item_id": random.integers(0, 12, rows),
            "category": random.choice(["x", "y", "z"], rows),
            "score": random.integers(0, 100, rows) / 100,
            "click": random.integers(0, 2, rows),
            "dwell": random.integers(0, 90_000, rows) / 1000,
        }
    )


def analyze(impressions: object = None, **entries: Any) -> Result:
    """An experiment of `a` and `b`; `clicks`, `items`, `exposures` may be frames."""
    frames = {
        name: entries.pop(name) for name in ("clicks", "items", "exposures") if name in entries
    }
    if impressions is not None:
        frames["impressions"] = impressions
    logs = {"impressions": {}, **{name: {} for name in frames}, **entries.pop("logs", {})}
    names = entries.pop("metrics", ["ctr", "clicks_per_user", "impressions_per_user"])
    base = {
        "name": "small",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "metrics": [{"name": m} if isinstance(m, str) else m for m in names],
        "engine": {"threads": 1},
    }
    folder = entries.pop("folder", ".")
    connection = entries.pop("connection", None)
    loaded = abeval.define(folder, **{**base, "logs": logs, **entries})
    return loaded.analyze(logs=frames, connection=connection)


def values(result: Result) -> dict[str, tuple[float | None, float | None]]:
    """Control and treatment of every metric."""
    return {row.metric: (row.control, row.treatment) for row in result.scorecard}


def close(found: Result, expected: Result) -> bool:
    """Whether two results have the same values, to the rounding of sums in another order."""
    ours, theirs = values(found), values(expected)
    return ours.keys() == theirs.keys() and all(
        ours[name] == pytest.approx(theirs[name], rel=1e-12, abs=1e-9) for name in ours
    )


def aside(result: Result, log: str = "impressions") -> dict[str, int]:
    """What was set aside of a log, by reason; rows used under `used`."""
    account = next(a for a in result.accounting if a.log == log)
    assert account.read == account.used + sum(n for _, n in account.set_aside)
    return {"used": account.used, **dict(account.set_aside)}


def per_unit(frame: pd.DataFrame, column: str, variant: str) -> float:
    """Mean over a variant's units of the sum of a column."""
    own = frame[frame["variant"] == variant]
    return float(own.groupby("user_id")[column].sum().mean())
