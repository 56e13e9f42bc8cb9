"""Units and spread of each metric by day, from the sums of pairs of days: what `power` plans with.

`api/` calls it beside the aggregates, for `inference/power.py`.
"""

from collections.abc import Mapping, Sequence

from abeval.aggregates.collect import Collected
from abeval.inference.means_and_ratios import estimate
from abeval.inference.outlook import Growth
from abeval.logs.run import Run
from abeval.logs.unit_arrays import Whole
from abeval.metrics.definition import Metric
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from abeval.time.day_sums import DaySums
from abeval.time.open import opened_logs
from abeval.time.time_sums import sums_of, timed


def growths_of(run: Run, metrics: Sequence[Metric], collected: Collected) -> dict[str, Growth]:
    """The growth of each metric whose days add up; none of logs without time.

    Raises:
        LogError: The log covers more days than can be followed.
    """
    if not len(collected.aggregates.days):
        return {}
    sums = sums_of(timed(opened_logs(run, metrics, *collected[1:]), run.step))
    days = len(sums.days)
    ended = days - (days > 1 and sums.days[-1] in sums.partial)
    by_name = {metric.name: metric for metric in metrics}
    control = run.experiment.control
    growths = {
        name: growth(by_name[name], one.sums({control: one.days[control]})[control], sums.entered)
        for name, one in sums.metrics.items()
    }
    return {n: one._replace(ended=ended) for n, one in growths.items() if one is not None}


def growth(metric: Metric, control: DaySums, entered: Mapping[str, Whole]) -> Growth | None:
    """The growth of one metric, None where it has no spread.

    Days at the start without an estimate take that of the first day that has one.

    Args:
        metric: A mean or a ratio.
        control: Its sums in control.
        entered: Variant → units by day of entry.
    """
    days = control.presence.days
    windows = [(range(day + 1), (0, day)) for day in range(days)]
    estimates = [_relative(metric, one) for one in control.windows(windows, entered=True)]
    known = [one for one in estimates if one is not None]
    if not known:
        return None
    units = [
        float(sum(units[: day + 1].sum() for units in entered.values())) for day in range(days)
    ]
    first, filled = known[0], []
    for one in estimates:
        first = first if one is None else one
        filled.append(first)
    values, spreads = zip(*filled, strict=True)
    return Growth(units, values, spreads, is_total=metric.kind == "mean")


def _relative(metric: Metric, control: Moments) -> tuple[float, float] | None:
    """Control's value, and its variance between units over its square."""
    try:
        one = estimate(metric, control)
    except Refusal:
        return None
    if one.value == 0 or not one.variance > 0:
        return None
    return one.value, one.variance * one.units / one.value**2
