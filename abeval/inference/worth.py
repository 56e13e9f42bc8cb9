"""Say what a goal's total would change by if all traffic had a variant."""

import re
from collections.abc import Iterator, Sequence
from zoneinfo import ZoneInfo

from abeval.aggregates.sums import pool_moments
from abeval.inference.compare import Analysis
from abeval.inference.context import find_partial_days
from abeval.metrics.definition import ColumnTerm, Metric, RowTerm
from abeval.results.analysis import Worth
from abeval.results.effects import Row


def compute_worth(analysis: Analysis, rows: Sequence[Row]) -> Iterator[Worth]:
    """Yield the worth of each goal that adds up, and can be believed.

    A difference per unit counts from each unit's entry, as its total does. So units that come late,
    ramps and uneven splits need no correction: those totals are of all units.
    """
    experiment, aggregates = analysis.experiment, analysis.aggregates
    if experiment.questions or experiment.is_unit_table or aggregates.clusters is not None:
        return
    metrics, days = {metric.name: metric for metric in analysis.metrics}, count_days(analysis)
    for row in rows:
        metric, control = metrics[row.metric], row.control
        change, low, high = row.difference, row.difference_low, row.difference_high
        if row.role != "goal" or row.status in ("untrusted", "too_little_data"):
            continue
        if row.reason == "denominator_moved":
            continue
        if not _adds_up(metric) or None in (control, change, low, high):
            continue
        sides = pool_moments(analysis.moments(metric)).values()
        size = sum(side.n * (1.0 if metric.per is None else side.mean[1]) for side in sides)
        scale = float(size) / (days or 1.0)
        what, same = _name_parts(metric)
        yield Worth(
            metric=row.metric,
            variant=row.variant,
            what=what,
            unit="" if metric.unit == "share" else metric.unit,
            same=same,
            days=days,
            control=scale * (control or 0.0),
            change=scale * (change or 0.0),
            change_low=scale * (low or 0.0),
            change_high=scale * (high or 0.0),
        )


def count_days(analysis: Analysis) -> float | None:
    """Count the days behind the totals; None without times.

    A day that is only partly in the log counts as that part. The days begin with the first analysed
    impression, or with the period if that is on the same day.
    """
    experiment, days = analysis.experiment, [*analysis.aggregates.days]
    if not days:
        return None
    if experiment.period is not None:
        start = experiment.period.bounds[0].replace(tzinfo=ZoneInfo(experiment.timezone))
        if str(start.date()) == days[0].day:
            days[0] = days[0]._replace(first_ms=round(start.timestamp() * 1000))
    partial = find_partial_days(experiment, days)
    return sum(partial.get(day.day, 1.0) for day in days)


def _adds_up(metric: Metric) -> bool:
    """Tell whether values are parts of a total.

    Parts of a total are sums of a unit's rows, or shares of rows.
    """
    if metric.cap is not None or metric.source.is_average or "score" in metric.needs:
        return False
    if metric.kind == "ratio":
        return isinstance(metric.value, RowTerm) and isinstance(metric.per, RowTerm)
    # Of units with a value alone, a mean leaves out that their number may move.
    if metric.kind != "mean" or metric.unit == "share" or metric.presence_terms is not None:
        return False
    if metric.per_unit is not None:
        is_sum = all(value.combine == "sum" for value in metric.per_unit.values)
        return is_sum and not metric.per_unit.is_timed
    return metric.source.daily and metric.value != ColumnTerm("c_days")


def _name_parts(metric: Metric) -> tuple[str, str]:
    """Name what a metric sums, and what a ratio divides by; empty for a mean."""
    top, _, below = (part.replace("Σ ", "") for part in metric.formula.partition(" / "))
    # A numerator that is a formula is no name: the metric is named itself.
    what = top if re.fullmatch(r"[^\W\d][\w ]*", top) else metric.label or metric.name
    if metric.per is None:
        return what, ""
    return what, "rows" if below == "1" else below
