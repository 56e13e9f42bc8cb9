"""Levels, coverage and carry-over where cities took turns, beside an analysis by rows.

Four cities, alike or of uneven size, 14 days, slots of two hours. Traffic and click rate have a
rhythm of the day, and the rate wanders hour by hour (an autoregressive process of .9). After a
switch the variant before acts for some minutes more. Experiments go through arrays and the
inference of an analysis, with 1,999 schedules drawn in place of 9,999; one in twelve goes through
the whole command.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from abeval.inference.clustered import LaggedSlots, carry_over
from abeval.inference.compare import compare
from abeval.inference.comparison import Arms
from abeval.simulate.turns import (
    ARMS,
    LIFT,
    SLOT,
    Minutes,
)
from abeval.stats import randomisation
from abeval.stats.distributions import two_sided_quantile
from benchmarks.runner import Record, Table
from tests.worlds.switchbacks import WORLDS, World, analysis_of, through_command


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


@contextmanager
def fewer_draws(draws: int = 1_999) -> Iterator[None]:
    """Draw fewer schedules than an analysis does, for many experiments in a short time."""
    with patch.object(randomisation, "DRAWS", draws):
        yield


def measure_world(world: World, repetitions: int, seed: int) -> Record:
    """Measure a world by arrays, and one experiment in twelve through the whole command."""
    seeds = range(seed, seed + repetitions)
    with fewer_draws():
        own = [judged(world, one) for one in seeds]
    level, covered, _, carries, found, level_by_rows, covered_by_rows = np.mean(
        own, axis=0
    ).tolist()
    whole = []
    for lift in (0.0, LIFT):
        few = seeds[: max(repetitions // 12, 1)]
        results = [through_command(world, one, lift) for one in few]
        significant = sum((one["ctr"].p_value or 1) <= 0.05 for one in results)
        warned = [
            {check.name for check in one.trust if check.status in ("fail", "warn")}
            for one in results
        ]
        carried = sum("carry_over" in names for names in warned)
        others = sum(bool(names - {"carry_over"}) for names in warned)
        whole.append(f"{significant} / {carried} / {others}")
    return {
        "schedule": world.schedule,
        "cities": "uneven" if world.is_uneven else "alike",
        "carry-over, minutes": world.carry,
        "burn-in": world.burn_in,
        "level, %": level,
        "coverage, %": covered,
        "median width, %": float(np.median([one.width for one in own])),
        "carry-over found without an effect, %": carries,
        "carry-over found with one, %": found,
        "by rows: level, %": level_by_rows,
        "by rows: coverage, %": covered_by_rows,
        "whole command, no effect: significant / carry-over / other warnings": whole[0],
        "with an effect": whole[1],
    }


TABLES = {"switchbacks": Table(measure_world, WORLDS, repetitions=500)}
