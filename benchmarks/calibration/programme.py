"""Does the gain of a quarter hold, of twelve launches beside a holdout?

Experiments of two weeks begin on any day of a quarter; what is significantly better is shipped at
the end of its test, until twelve are. Some of an effect wears off; launches that are live together
add up to less, or more. The truth is the lift of the quarter's days. All goes through the rows of
a history and the windows of a holdout.
"""

import math
from typing import NamedTuple

import numpy as np

from abeval.history.lasting import estimate_lasting, find_kept
from abeval.history.measures import build_measures
from abeval.history.programme import describe_programme
from abeval.results.trust import CLAIMED
from abeval.stats import latent
from benchmarks.runner import Record, Table
from tests.worlds.launches import (
    ALIKE,
    Quarter,
    build_holdout,
    build_rows,
    build_week_rows,
    compute_holdout_se,
    draw_quarter,
)
from tests.worlds.overlap import drawn, drawn_skewed, shop


def measure_quarters(world: Quarter, repetitions: int, seed: int) -> Record:
    """Judge many quarters of a world: how often intervals hold the truth, and how wide they are."""
    random = np.random.default_rng(1 + seed)
    rows = np.array([_judge(world, random) for _ in range(repetitions)])
    true, naive, expected = rows[:, :3].sum(0)
    held, width, kept = rows[:, 3:7].mean(0), np.median(rows[:, 7]), rows[rows[:, 9] > 0, 8]
    record = {
        "naive/true": f"{naive / true:.2f}",
        "launches/true": f"{expected / true:.2f}",
        **dict(zip(("launches, %", "holdout, %", "gained, %", "agree, %"), held, strict=True)),
        "width/holdout": f"{width:.2f}",
        "kept found": f"{np.mean(kept):.2f}" if kept.size else "",
        "found, %": rows[:, 9].mean(),
    }
    return {**world._asdict(), **record}


def _judge(world: Quarter, random: np.random.Generator) -> list[float]:
    drawn = draw_quarter(world, random)
    rows = build_rows(drawn)
    measure = build_measures(rows).select_side("online")[0]
    se = compute_holdout_se(world)
    holdout = build_holdout(drawn.true + se * float(random.standard_normal()), se)
    lasting = [*estimate_lasting(measure, [*rows, *build_week_rows(drawn)], 0.05)]
    kept = find_kept(lasting, 0.05)
    programme, _, _ = describe_programme(measure, rows, holdout, kept, 0.05)
    p = programme
    true = math.expm1(drawn.true)
    launches, alone, gained = (
        Ends._make(getattr(p, f"{name}{end}") for end in ("_low", "_high"))
        for name in ("expected", "holdout", "gained")
    )
    return [
        *(true, float(p.naive or 0), float(p.expected or 0)),
        *(launches.hold(true), alone.hold(true), gained.hold(true), p.basis == "both"),
        (gained.high - gained.low) / (alone.high - alone.low),
        *(float(p.kept or 1), p.kept != 1),
    ]


class Ends(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float

    def hold(self, value: float) -> bool:
        """Tell whether a value is between them."""
        return self.low <= value <= self.high


class Overlap(NamedTuple):
    """Two tests on the same units.

    Attributes:
        interaction: What both together add to the effects of each, as a factor minus one.
        units: How many there are.
    """

    interaction: float
    units: int = 4_000


def measure_overlap(world: Overlap, repetitions: int, seed: int) -> Record:
    """Audit many pairs of tests: how often is an interaction claimed?"""
    ids = np.array([f"u{i}" for i in range(world.units)])
    claimed, errors = 0, []
    for i in range(repetitions):
        frame, other = drawn(world.interaction, 1_000 * seed + i, ids)
        rows = shop().audit(logs={"units": frame}, others={"other": other}).interactions
        claimed += any(row.p_adjusted < CLAIMED for row in rows)
        low, high = (math.log1p(end or 0.0) for end in (rows[0].lift_low, rows[0].lift_high))
        errors.append((high - low) / 2 / 1.96)
    se = float(np.median(errors))
    size = abs(math.log1p(world.interaction)) / se
    return {**world._asdict(), "in errors": f"{size:.1f}", "claimed, %": claimed / repetitions}


class SkewedOverlap(NamedTuple):
    """Two tests of a share of the units, without effects, where few units buy for any amount."""

    share: float
    units: int


def measure_skewed_overlap(world: SkewedOverlap, repetitions: int, seed: int) -> Record:
    """Audit many pairs of tests: are skewed amounts compared, and is an interaction claimed?"""
    ids = np.array([f"u{i}" for i in range(world.units)])
    spend = [{"name": "spend", "role": "goal"}]
    shares = {"control": {"weight": 1 - world.share}, "treatment": {"weight": world.share}}
    tested, claimed = 0, 0
    for i in range(repetitions):
        frame, other = drawn_skewed(1_000 * seed + i, ids, world.share)
        loaded = shop(variants=shares, metrics=spend)
        rows = loaded.audit(logs={"units": frame}, others={"other": other}).interactions
        tested += bool(rows)
        claimed += any(row.p_adjusted < CLAIMED for row in rows)
    shown = {"tested, %": tested / repetitions, "claimed, %": claimed / repetitions}
    return {**world._asdict(), **shown}


class Weeks(NamedTuple):
    """Past experiments with effects in two weeks.

    Attributes:
        experiments: How many there are.
        spread: Standard deviation of true effects, in standard errors of a week.
        kept: What is left of an effect in the second week.
    """

    experiments: int
    spread: float
    kept: float


def measure_lasting(world: Weeks, repetitions: int, seed: int) -> Record:
    """Estimate what is left in many histories, with and without the noise that weeks share."""
    random = np.random.default_rng(1 + seed)
    size, shared = world.experiments, np.full(world.experiments, ALIKE)
    counts = np.zeros(3)
    for _ in range(repetitions):
        true = world.spread * random.standard_normal((size, 1)) * [1.0, world.kept]
        noise = random.multivariate_normal([0, 0], [[1, ALIKE], [ALIKE, 1]], size)
        x, y = (true + noise).T
        fitted, apart = (
            latent.fit(x, np.ones(size), y, np.ones(size), noise=known)
            for known in (shared, 0 * shared)
        )
        slopes = latent.slope(fitted), latent.slope(apart)
        supported = slopes[0].p_value < 0.05 and latent.held_out(fitted).gain.sum() > 0
        held = [slope.low <= world.kept <= slope.high for slope in slopes]
        counts += np.array([*held, supported])
    names = "interval holds, %", "as if apart, %", "supported, %"
    return {**world._asdict(), **dict(zip(names, counts / repetitions, strict=True))}


PLAIN, WORN = (0.0, 0.0), (-0.02, 0.1)
TABLES = {
    "quarters": Table(
        measure_quarters,
        [
            Quarter(share, spread, kept, overlap)
            for spread in (1.0, 2.0)
            for kept, overlap in ((1.0, PLAIN), (0.75, WORN))
            for share in (0.005, 0.01, 0.02, 0.05)
        ]
        + [Quarter(0.01, spread, 0.75, WORN, 0.75) for spread in (1.0, 2.0)],
        repetitions=500,
    ),
    "lasting": Table(
        measure_lasting,
        [Weeks(n, s, k) for n in (12, 40, 150) for s in (1.0, 2.0) for k in (0.0, 0.6, 1.0)],
        repetitions=500,
    ),
    "overlap": Table(
        measure_overlap,
        [Overlap(size) for size in (0.0, -0.05, -0.1, -0.15, -0.2)],
        repetitions=500,
    ),
    "skewed": Table(
        measure_skewed_overlap,
        [SkewedOverlap(0.05, 20_000), SkewedOverlap(0.5, 20_000), SkewedOverlap(0.5, 100_000)],
        repetitions=200,
    ),
}
