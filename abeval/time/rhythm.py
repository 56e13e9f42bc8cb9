"""Effects by hour of the day and by weekday, and whether they are one effect."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from abeval.experiment.model import Experiment
from abeval.inference.comparison import MIN_UNITS, Rule
from abeval.metrics.definition import Metric
from abeval.results.windows import Rhythm, WindowRow
from abeval.stats import shapes
from abeval.stats.records import Refusal
from abeval.stats.windows import effects
from abeval.time.axes import Axis
from abeval.time.change import measures
from abeval.time.clock import ClockSums
from abeval.time.ramps import Strata
from abeval.time.windows import effect_of


def clock_axis(metric: Metric, sums: ClockSums, control: str, strata: Strata) -> Axis:
    """Parts of time as places on an axis; every cohort is in all of them."""
    arms = sums.metrics[metric.name]
    last = max(cohort for group in strata for cohort in group)
    size = len(sums.labels)
    return Axis(sums.by, sums.labels, arms, control, strata, (last,) * size, sums.partial)


def clock_rows(
    experiment: Experiment, metrics: Sequence[Metric], sums: ClockSums, strata: Strata
) -> tuple[tuple[WindowRow, ...], tuple[Rhythm, ...]]:
    """The effect in every part of time, and the test of one effect in all of them."""
    rule = Rule(experiment.alpha, experiment.inference.relative)
    rows: list[WindowRow] = []
    tests: list[Rhythm] = []
    for metric in (m for m in metrics if m.name in sums.metrics):
        axis = clock_axis(metric, sums, experiment.control, strata)
        for variant in experiment.treatments:
            rows += [
                _row(metric, axis, variant, place, sums.days[place], rule)
                for place in range(len(sums.labels))
            ]
            tests.append(rhythm_of(metric, axis, variant))
    return tuple(rows), tuple(tests)


def _row(metric: Metric, axis: Axis, variant: str, place: int, days: int, rule: Rule) -> WindowRow:
    found = effect_of(metric, axis, variant, (place, place), rule, entered=False)
    return WindowRow(
        metric=metric.name,
        variant=variant,
        axis=axis.name,
        kind="recurring",
        days=days,
        start=axis.labels[place],
        end=axis.labels[place],
        partial=axis.partial[place],
        **found.numbers._asdict(),
        reason=found.reason,
    )


def rhythm_of(metric: Metric, axis: Axis, variant: str) -> Rhythm:
    """Wald test of one effect in all parts of time, the same units being in several."""
    parts = [place for place in range(len(axis.labels)) if measures(axis, variant, place)]
    bare = Rhythm(metric.name, variant, axis.name, len(parts))
    if len(parts) < 2:
        return replace(bare, reason=f"fewer than two have {MIN_UNITS} units in each variant")
    try:
        found = effects(*axis.by_day(variant, parts))
        level = shapes.fit(found.effect, found.covariance, np.ones((len(parts), 1)))
    except Refusal as refusal:
        return replace(bare, reason=str(refusal))
    return replace(
        bare,
        scale=found.scale,
        effect=float(level.coefficients[0]),
        effect_se=math.sqrt(level.covariance[0, 0]),
        p_value=level.q_p_value,
    )
