"""Quarters of launches beside a holdout: rows of a history, windows, and what is true."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from abeval.history.programme import Holdout
from abeval.results.history import HistoryRow
from abeval.results.record import list_columns
from abeval.results.windows import TIME_SCHEMA_VERSION, TimeResult, WindowRow
from abeval.stats.records import Floats, Integers

DAYS, TEST, SHIPPED = 91, 14, 12
SE = 0.01
Z = 1.96
DATES = tuple(str(np.datetime64("2026-07-01") + day) for day in range(DAYS))
ALIKE = 0.5
"""Correlation of the errors of two weeks: the same units return."""
WEEK_SE = SE / math.sqrt((1 + ALIKE) / 2)
PERSISTENT = 0.5
"""Share of a unit's values that is the same in every two weeks: more days do not average it out."""


class Quarter(NamedTuple):
    """A world of launches and their holdout.

    Attributes:
        share: Share of the units that is held out.
        spread: Standard deviation of true effects, in standard errors of a test.
        kept: Mean share of an effect that is left after its test; each has its own, with .1.
        overlap: Interaction of two launches, a mean and a standard deviation in spreads of effects.
        idle: Share of experiments without an effect; the others have the more of one.
    """

    share: float = 0.02
    spread: float = 1.0
    kept: float = 1.0
    overlap: tuple[float, float] = (0.0, 0.0)
    idle: float = 0.0


class Drawn(NamedTuple):
    """One quarter: its tests as seen, what was shipped, and its true log lift.

    `weeks` are the effects of the first and the second week of a test, shape (tests, 2); the second
    week's stays.
    """

    start: Integers
    seen: Floats
    weeks: Floats
    shipped: Floats
    true: float


def draw_quarter(world: Quarter, random: np.random.Generator) -> Drawn:
    """Draw experiments until enough are shipped, and what they did to the quarter's days."""
    spread, count = world.spread * SE, 2_000
    true = spread * random.standard_normal(count)
    if world.idle:
        true *= (random.random(count) >= world.idle) / math.sqrt(1 - world.idle)
    left = world.kept + 0.1 * (world.kept < 1) * random.standard_normal(count)
    noise = random.multivariate_normal(
        [0, 0], WEEK_SE**2 * np.array([[1, ALIKE], [ALIKE, 1]]), count
    )
    weeks = true[:, None] * np.stack([2 - left, left], axis=1) + noise
    seen = weeks.mean(1)
    shipped = seen > Z * SE
    enough = int(np.flatnonzero(shipped)[SHIPPED - 1]) + 1
    true, seen, shipped, left = true[:enough], seen[:enough], shipped[:enough], left[:enough]
    start = random.integers(0, DAYS - 2 * TEST, enough)
    day = np.arange(DAYS)
    tested = (day >= start[:, None]) & (day < start[:, None] + TEST)
    live = shipped[:, None] & (day >= start[:, None] + TEST)
    logs = (true[:, None] * (0.5 * tested + left[:, None] * live)).sum(0)
    mean, sd = world.overlap
    pairs = np.triu(spread * (mean + sd * random.standard_normal((enough, enough))), 1)
    logs += np.einsum("id,ij,jd->d", live.astype(float), pairs, live.astype(float))
    return Drawn(start, seen, weeks[:enough], shipped, float(np.log(np.mean(np.exp(logs)))))


def compute_holdout_se(world: Quarter) -> float:
    """Return the standard error of everybody else over the holdout, from that of a test."""
    units = (1 / world.share + 1 / (1 - world.share)) * (1 - world.share) / 4
    return SE * math.sqrt(units * (PERSISTENT + (1 - PERSISTENT) * TEST / DAYS))


def build_rows(drawn: Drawn) -> list[HistoryRow]:
    """Build the rows that a history has of the tests."""
    return [
        HistoryRow(
            experiment=f"e{i}",
            source="analysis",
            variant="new",
            control="old",
            metric="ctr",
            side="online",
            start=DATES[start],
            end=DATES[start + TEST],
            direction="increase",
            role="goal",
            effect=math.expm1(seen),
            se=SE * math.exp(seen),
            p_value=float(2 * special.ndtr(-abs(seen / SE))),
            alpha=0.05,
            units_control=50_000,
            units=50_000,
            shipped=bool(shipped),
        )
        for i, (start, seen, shipped) in enumerate(
            zip(drawn.start, drawn.seen, drawn.shipped, strict=True)
        )
    ]


def build_week_rows(drawn: Drawn) -> list[HistoryRow]:
    """Build the rows that a history has of the weeks of the tests."""
    return [
        HistoryRow(
            experiment=f"e{i}",
            source="windows",
            variant="new",
            metric="ctr",
            side="online",
            effect=float(effect),
            se=WEEK_SE,
            alpha=0.05,
            week=week,
            covariance=WEEK_SE**2 * (1.0 if week == 1 else ALIKE),
        )
        for i, effects in enumerate(drawn.weeks)
        for week, effect in enumerate(effects, start=1)
    ]


def build_holdout(log_lift: float, se: float) -> Holdout:
    """Build the windows of a holdout: each day's units, and the lift of all days."""
    width = Z * se
    lifts = {
        name: math.expm1(value)
        for name, value in (
            ("lift", log_lift),
            ("lift_low", log_lift - width),
            ("lift_high", log_lift + width),
        )
    }
    blank: dict[str, Any] = dict.fromkeys(list_columns(WindowRow))
    common = blank | {"metric": "ctr", "variant": "everyone", "axis": "calendar"}
    daily = [
        WindowRow(**common | {"kind": "daily", "end": day, "units_control": 1_000, "units": 9_000})
        for day in DATES
    ]
    whole: dict[str, Any] = {
        "kind": "cumulative",
        "end": DATES[-1],
        "days": DAYS,
        "units_control": 1,
        "units": 9,
    }
    result = TimeResult(
        *(TIME_SCHEMA_VERSION, "holdout", 0.05, DATES, (), (), ()),
        *((*daily, WindowRow(**common | whole | lifts)), (), (), (), {}, ()),
    )
    return Holdout("holdout", result, result, {})
