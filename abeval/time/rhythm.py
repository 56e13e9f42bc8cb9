"""Effects by hour of the day and by weekday, and whether they are one effect.

`time/analysis.py` calls it with the `ClockSums` of `time/time_sums.py`, where the user asks for
hours or weekdays, and puts the rows and tests into the `TimeResult`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from abeval.experiment.model import Experiment
from abeval.inference.comparison import MIN_UNITS, Rule
from abeval.metrics.definition import Metric
from abeval.results.windows import Rhythm, WindowRow
from abeval.stats import shapes
from abeval.stats.records import Refusal
from abeval.stats.shapes import effects
from abeval.time.change import has_effect
from abeval.time.cut import ClockSums
from abeval.time.day_sums import Known
from abeval.time.windows import Axis, Course, Strata, row_of


def clock_axis(metric: Metric, sums: ClockSums, control: str, strata: Strata) -> Axis:
    """Hours or weekdays as places on an axis; every cohort is in all of them."""
    last = max(cohort for group in strata for cohort in group)
    last_cohort = (last,) * len(sums.labels)
    days = sums.metrics[metric.name]
    of_variants = days.sums(days.days)
    return Axis(sums.by, sums.labels, of_variants, control, strata, last_cohort, sums.partial)


def clock_rows(
    known_of: Callable[[Metric, str], Known | None],
    experiment: Experiment,
    metrics: Sequence[Metric],
    sums: ClockSums,
    strata: Strata,
) -> tuple[tuple[WindowRow, ...], tuple[Rhythm, ...]]:
    """The effect in every hour or weekday, and the test of one effect in all of them."""
    rule = Rule(experiment.alpha, experiment.inference.relative)
    rows: list[WindowRow] = []
    tests: list[Rhythm] = []
    for metric in (m for m in metrics if m.name in sums.metrics):
        axis = clock_axis(metric, sums, experiment.control, strata)
        for variant in experiment.treatments:
            course = Course(metric, variant, axis, known_of(metric, variant))
            spans = [(place, place) for place in range(len(sums.days))]
            rows += [
                replace(row_of(course, "recurring", span, effect), days=days)
                for days, (span, effect) in zip(sums.days, course.effects(spans, rule), strict=True)
            ]
            tests.append(rhythm_of(course))
    return tuple(rows), tuple(tests)


def rhythm_of(course: Course) -> Rhythm:
    """Test of one effect in all hours or weekdays, the same units being in several."""
    parts = [place for place, arms in enumerate(course.each_day()) if has_effect(arms)]
    rhythm = Rhythm(course.metric.name, course.variant, course.axis.name, len(parts))
    if len(parts) < 2:
        return replace(
            rhythm, reason=f"fewer than two of them have {MIN_UNITS} units in each variant"
        )
    try:
        windows = effects(*course.by_day(parts))
        level = shapes.fit(windows.effect, windows.covariance, np.ones((len(parts), 1)), windows.df)
    except Refusal as refusal:
        return replace(rhythm, reason=str(refusal))
    return replace(
        rhythm,
        scale=windows.scale,
        effect=float(level.coefficients[0]),
        effect_se=math.sqrt(level.covariance[0, 0]),
        p_value=level.q_p_value,
    )
