"""Levels, coverage and carry-over where cities took turns, beside an analysis by rows.

    python -m benchmarks.calibration.switchbacks --seeds 500 --runs 40

Four cities, alike or of uneven size, 14 days, slots of two hours. Traffic and click rate have a
rhythm of the day, and the rate wanders hour by hour (an autoregressive process of .9). After a
switch the variant before acts for some minutes more. `--seeds` experiments go through arrays and
the inference of an analysis, with 1,999 schedules drawn in place of 9,999; `--runs` go through the
whole command.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import abeval
from abeval.aggregates.aggregates import Aggregates
from abeval.assignment.switchbacks import Schedule
from abeval.experiment.load import parse_experiment
from abeval.experiment.metrics import chosen_metrics
from abeval.inference.clustered import LaggedSlots, carry_over
from abeval.inference.compare import Analysis, compare
from abeval.inference.comparison import Arms
from abeval.logs.clusters import PARTS, find_slots
from abeval.logs.unit_arrays import Labels
from abeval.results.analysis import Result
from abeval.simulate.turns import (
    ARMS,
    CITIES,
    DAYS,
    HOURS,
    LIFT,
    MINUTES,
    SLOT,
    SLOTS,
    START,
    Minutes,
    build_log,
    draw_minutes,
)
from abeval.stats import randomisation
from abeval.stats.distributions import two_sided_quantile


class World(NamedTuple):
    """How slots were drawn, for how many minutes the variant before acts, and the burn-in.

    `is_uneven` says that one city has half of all impressions and another a tenth.
    """

    schedule: Schedule
    carry: int
    burn_in: int
    is_uneven: bool = False

    def __str__(self) -> str:
        """Name it for a table."""
        cities = "uneven" if self.is_uneven else "alike"
        return f"{self.schedule} | {cities} | {self.carry} | {self.burn_in}"

    def draw(self, seed: int, lift: float) -> Minutes:
        """Draw an experiment."""
        drawn = draw_minutes(self.schedule, self.carry, seed, lift)
        if not self.is_uneven:
            return drawn
        rng, kept = np.random.default_rng([seed, 46]), np.array(SHARES)[:, None]
        x = rng.binomial(drawn.x, kept)
        y = rng.hypergeometric(drawn.y, drawn.x - drawn.y, x)
        return Minutes(y, x, drawn.treated)


SHARES = (1.0, 0.5, 0.3, 0.2)
"""Shares of the impressions of four cities that are kept where cities are uneven."""


WORLDS = (
    World("balanced", 0, 20),
    World("balanced", 30, 0),
    World("balanced", 30, 30),
    World("coin", 30, 30),
    World("alternating", 0, 20),
    World("balanced", 30, 30, is_uneven=True),
    World("coin", 30, 30, is_uneven=True),
)


def entries(world: World) -> dict[str, Any]:
    """Write the plan: clicks of impressions in slots of cities."""
    turns = {"cluster": "city", "slot": f"{HOURS}h", "burn_in": f"{world.burn_in}m"}
    return {
        "name": "cities",
        "unit": "user_id",
        "control": "control",
        "variants": {name: {} for name in ARMS},
        "period": {"start": str(START.date()), "end": str((START + timedelta(DAYS)).date())},
        "logs": {"impressions": {"path": "log.csv"}},
        "design": {"switchback": {**turns, "schedule": world.schedule}},
        "metrics": [{"name": "ctr", "role": "goal"}],
    }


def analysis_of(world: World, drawn: Minutes) -> Analysis:
    """Sum the minutes by part of a slot, as an analysis does."""
    experiment = parse_experiment(entries(world))
    slot, since = np.divmod(np.arange(MINUTES), SLOT)
    quarter = len(PARTS) * (since - world.burn_in) // (SLOT - world.burn_in)
    part = np.broadcast_to(quarter, (CITIES, MINUTES))
    counts = np.broadcast_to(since >= world.burn_in, (CITIES, MINUTES))
    unit = ((np.arange(CITIES)[:, None] * SLOTS + slot) * len(PARTS) + part)[counts]
    size = CITIES * SLOTS * len(PARTS)
    y, x = (np.bincount(unit, one[counts], size) for one in (drawn.y, drawn.x))
    known = np.flatnonzero(np.bincount(unit, minlength=size))
    cell, of_part = np.divmod(known, len(PARTS))
    city, number = np.divmod(cell, SLOTS)
    names = [str(one) for one in range(SLOTS)]
    labels = {
        "design.cluster": Labels(city.astype(np.int32), names[:CITIES]),
        "design.slot": Labels(number.astype(np.int32), names),
        "design.part": Labels(of_part.astype(np.int32), PARTS),
    }
    variant = drawn.treated[city, number].astype(np.int8)
    turns = experiment.switchback
    if turns is None:
        raise TypeError("the plan is a switchback")
    slots = find_slots(experiment, turns, variant, labels)
    rows = [np.bincount(slots.of_unit, one[known]) for one in (y, x)]
    parts = [
        np.bincount(slots.of_unit, one[known] * (of_part == which))
        for which in range(len(PARTS))
        for one in (y, x)
    ]
    others = np.zeros((6, len(slots.variant)))
    sums = np.stack([*rows, *others, *parts], axis=1)
    units = dict(zip(ARMS, np.bincount(slots.variant).tolist(), strict=True))
    of = Aggregates(
        units=units, clusters=slots, cluster_sums={"ctr": sums}, facts={"clicks": 1, "scored": 0}
    )
    return Analysis(experiment, chosen_metrics(experiment), of)


class Judged(NamedTuple):
    """What one experiment without an effect says, and one with.

    `rejected` is of no effect, `covered` of the lift, `carries` whether carry-over is found (p ≤
    .05) without an effect, and `found` with one; `width` is of the lift's interval.
    """

    rejected: bool
    covered: bool
    width: float
    carries: bool
    found: bool
    rejected_by_rows: bool
    covered_by_rows: bool


def judged(world: World, seed: int) -> Judged:
    """Judge one experiment without an effect, and one with."""
    outcomes = []
    for lift in (0.0, LIFT):
        drawn = world.draw(seed, lift)
        analysis = analysis_of(world, drawn)
        metric = analysis.metrics[0]
        own = compare(analysis, metric, Arms(*ARMS))
        if own.effect is None or own.lift is None:
            raise ValueError(f"{world}: no effect")
        slots = LaggedSlots.build(metric, analysis.aggregates)
        p_carried = slots and carry_over(slots)
        carried = p_carried is not None and p_carried <= analysis.experiment.alpha
        outcomes.append((own, carried, _by_rows(drawn)))
    (null, carries, rows_null), (own, found, rows) = outcomes
    if null.effect is None or own.lift is None:
        raise ValueError(f"{world}: no effect")
    return Judged(
        null.effect.p_value <= analysis.experiment.alpha,
        own.lift.low <= LIFT <= own.lift.high,
        own.lift.high - own.lift.low,
        carries,
        found,
        not rows_null[0] <= 0 <= rows_null[1],
        rows[0] <= LIFT <= rows[1],
    )


def _by_rows(drawn: Minutes) -> tuple[float, float]:
    """Return the interval of the lift where each impression is taken for independent."""
    treated = np.repeat(drawn.treated, SLOT, axis=1)
    counts = [(drawn.y[arm].sum(), drawn.x[arm].sum()) for arm in (~treated, treated)]
    (y, x), (y_own, x_own) = counts
    value = np.log(y_own / x_own) - np.log(y / x)
    error = two_sided_quantile(0.05) * np.sqrt(1 / y - 1 / x + 1 / y_own - 1 / x_own)
    return float(np.expm1(value - error)), float(np.expm1(value + error))


def through_command(world: World, seed: int, lift: float) -> Result:
    """Analyse an experiment through the whole command."""
    log = build_log(world.draw(seed, lift), seed)
    return abeval.define(entries(world)).analyze(logs={"impressions": log})


@contextmanager
def fewer_draws(draws: int = 1_999) -> Iterator[None]:
    """Draw fewer schedules than an analysis does, for many experiments in a short time."""
    with patch.object(randomisation, "DRAWS", draws):
        yield


def line(world: World, seeds: int, runs: int) -> str:
    """Measure a world: a row of the table."""
    with fewer_draws():
        own = [judged(world, seed) for seed in range(seeds)]
    level, covered, _, carries, found, level_by_rows, covered_by_rows = np.mean(own, axis=0)
    width = np.median([one.width for one in own])
    shares = level, covered, width, carries, found, level_by_rows, covered_by_rows
    cells = [f"{100 * share:.1f}" for share in shares]
    for lift in (0.0, LIFT):
        results = [through_command(world, seed, lift) for seed in range(runs)]
        significant = sum((one["ctr"].p_value or 1) <= 0.05 for one in results)
        warned = [
            {check.name for check in one.trust if check.status in ("fail", "warn")}
            for one in results
        ]
        carried = sum("carry_over" in names for names in warned)
        others = sum(bool(names - {"carry_over"}) for names in warned)
        cells.append(f"{significant} / {carried} / {others}")
    return f"| {world} | {' | '.join(cells)} |\n"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--runs", type=int, default=40)
    options = parser.parse_args()
    sys.stdout.write(
        "| schedule | cities | carry-over, minutes | burn-in | level, % | coverage, % "
        "| median width, % | carry-over found without an effect, % | with one, % "
        "| by rows: level, % | coverage, % "
        "| whole command, no effect: significant / carry-over / other warnings | with one |\n"
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    )
    for world in WORLDS:
        sys.stdout.write(line(world, options.seeds, options.runs))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
