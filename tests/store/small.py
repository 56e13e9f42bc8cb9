"""A small experiment and small aggregates, to be written and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

import abeval
from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.moment_rows import MOMENT_COLUMNS
from abeval.experiment.model import Experiment
from abeval.logs.stretches import ENTERED

_SUMS = len(MOMENT_COLUMNS) - 6
_DAYS = ("day", "units", "new_units", "impressions", "first_ms", "last_ms")


def plan(**entries: Any) -> Experiment:
    """An experiment whose logs nobody opens; metrics may be names."""
    names = entries.pop("metrics", ["ctr", "clicks_per_user", "impressions_per_user"])
    base: dict[str, Any] = {
        "name": "daily",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "period": {"start": "2024-03-02", "end": "2024-03-20"},
        "pre_period": {"start": "2024-03-01", "end": "2024-03-02"},
        "logs": {"impressions": {"path": "log/*.parquet"}},
        "segments": {"device": "device"},
        "metrics": [{"name": m} if isinstance(m, str) else m for m in names],
    }
    return abeval.define(Path(), **{**base, **entries}).experiment


def aggregates(**changes: Any) -> Aggregates:
    """Aggregates of no units, but for what is given."""
    base: dict[str, Any] = {
        "moments": moments(),
        "reach": pd.DataFrame(),
        "group_units": pd.DataFrame(),
        "catalogue_size": None,
        "units": units(),
        "accounts": accounts(),
        "days": days(),
        "refused": {},
        "facts": {},
        "caps": {},
        "entered": pd.DataFrame(columns=list(ENTERED)),
    }
    return Aggregates(**{**base, **changes})


def moments(*rows: tuple[str, str, int, int]) -> pd.DataFrame:
    """Rows of a metric and a variant: its units, and what every sum of them is."""
    filled = [(m, "whole", "", v, 0, n, *[str(total)] * _SUMS) for m, v, n, total in rows]
    return pd.DataFrame(filled, columns=list(MOMENT_COLUMNS))


def units(*rows: tuple[str, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["variant", "units", "crossovers"])


def accounts(*rows: tuple[str, str, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["log", "reason", "rows"])


def days(*rows: tuple[str, int, int, int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(_DAYS))
