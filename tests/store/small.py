"""A small experiment and small aggregates, to be written and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import abeval
from abeval.aggregates.aggregates import Aggregates, VariantUnits
from abeval.aggregates.sums import MOMENT_COLUMNS, Row
from abeval.experiment.model import Experiment
from abeval.logs.accounting import DayRows, LogRows

_SUMS = len(MOMENT_COLUMNS) - 6


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
        "catalogue_size": None,
        "units": units(),
        "accounts": accounts(),
        "days": days(),
        "refused": {},
        "facts": {},
        "caps": {},
    }
    return Aggregates(**{**base, **changes})


def moments(*rows: tuple[str, str, int, int]) -> list[Row]:
    """Rows of a metric and a variant: its units, and what every sum of them is."""
    return [(m, "whole", "", v, 0, n, *[str(total)] * _SUMS) for m, v, n, total in rows]


def units(*rows: tuple[str, int, int]) -> list[VariantUnits]:
    return [VariantUnits(*row) for row in rows]


def accounts(*rows: tuple[str, str, int]) -> list[LogRows]:
    return [LogRows(*row) for row in rows]


def days(*rows: tuple[str, int, int, int, int, int]) -> list[DayRows]:
    return [DayRows(*row) for row in rows]
