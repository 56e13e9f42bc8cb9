"""Does the gain of a quarter hold, of twelve launches beside a holdout?

Experiments of two weeks begin on any day of a quarter; what is significantly better is shipped at
the end of its test, until twelve are. Some of an effect wears off; launches that are live together
add up to less, or more. The truth is the lift of the quarter's days. All goes through the rows of
a history and the windows of a holdout.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from abeval.history.measures import build_measures
from abeval.history.programme import Holdout, Kept, describe_programme
from abeval.results.history import HistoryRow
from abeval.results.record import list_columns
from abeval.results.windows import TIME_SCHEMA_VERSION, TimeResult, WindowRow
from abeval.stats.records import Floats
from benchmarks.runner import Record, Table

DAYS, TEST, SHIPPED = 91, 14, 12
SE = 0.01
Z = 1.96
DATES = tuple(str(np.datetime64("2026-07-01") + day) for day in range(DAYS))
PERSISTENT = 0.5
"""Share of a unit's values that is the same in every two weeks: more days do not average it out."""


class Quarter(NamedTuple):
    """A world of launches and their holdout.

    Attributes:
        share: Share of the units that is held out.
        spread: Standard deviation of true effects, in standard errors of a test.
        kept: Mean share of an effect that is left after its test; each has its own, with .1.
        overlap: Interaction of two launches, a mean and a standard deviation in spreads of effects.
    """

    share: float = 0.02
    spread: float = 1.0
    kept: float = 1.0
    overlap: tuple[float, float] = (0.0, 0.0)


class Drawn(NamedTuple):
    """One quarter: its tests as seen, what was shipped, and its true log lift."""

    start: Floats
    seen: Floats
    shipped: Floats
    true: float


def draw_quarter(world: Quarter, random: np.random.Generator) -> Drawn:
    """Draw experiments until enough are shipped, and what they did to the quarter's days."""
    spread, count = world.spread * SE, 2_000
    true = spread * random.standard_normal(count)
    seen = true + SE * random.standard_normal(count)
    shipped = seen > Z * SE
    enough = int(np.flatnonzero(shipped)[SHIPPED - 1]) + 1
    true, seen, shipped = true[:enough], seen[:enough], shipped[:enough]
    start = random.integers(0, DAYS - 2 * TEST, enough)
    left = world.kept + 0.1 * (world.kept < 1) * random.standard_normal(enough)
    day = np.arange(DAYS)
    tested = (day >= start[:, None]) & (day < start[:, None] + TEST)
    live = shipped[:, None] & (day >= start[:, None] + TEST)
    logs = (true[:, None] * (0.5 * tested + left[:, None] * live)).sum(0)
    mean, sd = world.overlap
    pairs = np.triu(spread * (mean + sd * random.standard_normal((enough, enough))), 1)
    logs += np.einsum("id,ij,jd->d", live.astype(float), pairs, live.astype(float))
    return Drawn(start, seen, shipped, float(np.log(np.mean(np.exp(logs)))))


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
    blank = dict.fromkeys(list_columns(WindowRow))
    common = blank | {"metric": "ctr", "variant": "everyone", "axis": "calendar"}
    daily = [
        WindowRow(**common | {"kind": "daily", "end": day, "units_control": 1_000, "units": 9_000})
        for day in DATES
    ]
    whole = {"kind": "cumulative", "end": DATES[-1], "days": DAYS, "units_control": 1, "units": 9}
    result = TimeResult(
        *(TIME_SCHEMA_VERSION, "holdout", 0.05, DATES, (), (), ()),
        *((*daily, WindowRow(**common | whole | lifts)), (), (), (), {}, ()),
    )
    return Holdout("holdout", result, result, {})


def measure_quarters(world: Quarter, repetitions: int, seed: int) -> Record:
    """Judge many quarters of a world: how often intervals hold the truth, and how wide they are."""
    random = np.random.default_rng(1 + seed)
    rows = np.array([_judge(world, random) for _ in range(repetitions)])
    names = (
        *("naive/true", "launches/true", "launches, %", "holdout, %", "gained, %"),
        *("agree, %", "width/holdout"),
    )
    sums = rows[:, :3].sum(0)
    shown = sums[1] / sums[0], sums[2] / sums[0], *rows[:, 3:7].mean(0), np.median(rows[:, 7])
    record = dict(
        zip(
            names,
            (f"{x:.2f}" if i < 2 or i > 5 else float(x) for i, x in enumerate(shown)),
            strict=True,
        )
    )
    return {**world._asdict(), **record}


def _judge(world: Quarter, random: np.random.Generator) -> list[float]:
    drawn = draw_quarter(world, random)
    rows = build_rows(drawn)
    measure = build_measures(rows).select_side("online")[0]
    se = compute_holdout_se(world)
    holdout = build_holdout(drawn.true + se * float(random.standard_normal()), se)
    kept = (
        Kept()
        if world.kept == 1
        else Kept(world.kept + 0.05 * float(random.standard_normal()), 0.05)
    )
    programme, _, _ = describe_programme(measure, rows, holdout, kept, 0.05)
    p = programme
    true = math.expm1(drawn.true)
    return [
        *(true, p.naive, p.expected),
        *(p.expected_low <= true <= p.expected_high, p.holdout_low <= true <= p.holdout_high),
        *(p.gained_low <= true <= p.gained_high, p.basis == "both"),
        (p.gained_high - p.gained_low) / (p.holdout_high - p.holdout_low),
    ]


PLAIN, WORN = (0.0, 0.0), (-0.02, 0.1)
TABLES = {
    "quarters": Table(
        measure_quarters,
        [
            Quarter(share, spread, kept, overlap)
            for spread in (1.0, 2.0)
            for kept, overlap in ((1.0, PLAIN), (0.75, WORN))
            for share in (0.005, 0.01, 0.02, 0.05)
        ],
        repetitions=500,
    )
}
