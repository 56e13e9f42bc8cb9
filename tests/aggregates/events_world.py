"""A log of visits and one of orders, with everything that orders of real shops have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import abeval

START, END = pd.Timestamp("2026-03-01"), pd.Timestamp("2026-03-15")
DAY = pd.Timedelta("1 day")


class World(NamedTuple):
    """Frames of both logs: `user_id, variant, ts, item_id, click`, `customer, at, amount, kind`."""

    impressions: pd.DataFrame
    orders: pd.DataFrame

    @property
    def logs(self) -> dict[str, pd.DataFrame]:
        return {"impressions": self.impressions, "orders": self.orders}


def world(units: int = 1200, seed: int = 5) -> World:
    """Visits from before the period on, orders also by strangers, early, late, twice and broken."""
    random = np.random.default_rng(seed)
    visits = random.integers(1, 9, units)
    unit = np.repeat(np.arange(units), visits)
    came = random.uniform(-6, 13.9, units)[unit] + random.exponential(2.5, unit.size)
    impressions = pd.DataFrame(
        {
            "user_id": unit,
            "variant": np.where(unit % 2 == 0, "a", "b"),
            "ts": _times(came),
            "item_id": random.integers(0, 9, unit.size),
            "click": (random.random(unit.size) < 0.3).astype(int),
        }
    )
    count = 2 * units
    bought = random.uniform(-8, 15, count)
    orders = pd.DataFrame(
        {
            "customer": random.integers(0, units + 150, count).astype(float),
            "at": _times(bought),
            "amount": np.round(random.gamma(2, 20, count), 2),
            "kind": random.choice(["cart", "paid"], count),
        }
    )
    orders.loc[::97, "amount"] = np.nan
    orders.loc[::101, "at"] = pd.NaT
    orders["customer"] = orders["customer"].astype("Int64")
    orders.loc[::103, "customer"] = pd.NA
    return World(impressions, pd.concat([orders, orders.iloc[:40]], ignore_index=True))


def _times(days: np.ndarray) -> pd.Series:
    seconds = np.round(days * 86_400).astype("int64")
    return (START + pd.to_timedelta(pd.Series(seconds), unit="s")).dt.as_unit("ms")


METRICS: list[dict[str, Any]] = [
    {"name": "clicked", "per_unit": "any", "value": "click"},
    {"name": "clicked_soon", "log": "clicks", "within": "36 hours"},
    {"name": "items_clicked", "log": "clicks", "per_unit": "count_distinct", "value": "item_id"},
    {"name": "bought", "log": "orders"},
    {"name": "bought_within", "log": "orders", "within": "7 days"},
    {"name": "revenue", "log": "orders", "value": "amount", "resolution": 0.01},
    {
        "name": "revenue_within",
        "log": "orders",
        "value": "amount",
        "resolution": 0.01,
        "where": "kind = 'paid'",
        "within": "3 days",
    },
    {"name": "largest", "log": "orders", "per_unit": "max", "value": "amount", "resolution": 0.01},
    {"name": "first", "log": "orders", "per_unit": "first", "value": "amount", "resolution": 0.01},
    {"name": "kinds", "log": "orders", "per_unit": "count_distinct", "value": "kind"},
    {"name": "basket", "log": "orders", "numerator": "amount", "denominator": "1"},
    {"name": "returned", "retention": 2},
    {"name": "bought_on_day", "log": "orders", "retention": 1},
    {
        "name": "funnel",
        "funnel": [
            {"log": "clicks"},
            {"log": "orders", "where": "kind = 'cart'"},
            {"log": "orders", "where": "kind = 'paid'"},
        ],
    },
    {
        "name": "funnel_within",
        "funnel": [{"log": "clicks"}, {"log": "orders", "where": "amount > 20"}],
        "within": "5 days",
    },
]


LOGS: dict[str, Any] = {
    "impressions": {},
    "events": {"orders": {"columns": {"unit_id": "customer", "ts": "at"}}},
}
LOGS_WITH_UNITS = {**LOGS, "units": {"covariates": ["size"], "segments": {"tier": "lower(tier)"}}}


def units(count: int) -> pd.DataFrame:
    """A table of units, with a stranger and without unit 7."""
    number = np.arange(count + 1)
    table = {"user_id": number, "size": number % 11 / 4, "tier": np.where(number % 3, "É", "Pro")}
    return pd.DataFrame(table).drop(index=7)


def experiment(folder: str | Path = ".", **entries: Any) -> abeval.LoadedExperiment:
    """The experiment of the world; entries replace its own."""
    base: dict[str, Any] = {
        "name": "events",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "period": {"start": START.date(), "end": END.date()},
        "logs": LOGS,
        "metrics": METRICS,
        "trust": {"aa_runs": 0},
        "engine": {"threads": 1},
    }
    return abeval.define(folder, **{**base, **entries})
