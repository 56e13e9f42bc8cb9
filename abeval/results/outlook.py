"""What an experiment could see after so many days, and the days to a smaller effect.

`inference/power_outlook.py` fills it; the page draws it and says how long to run.
"""

from dataclasses import dataclass

from abeval.results.record import named


@dataclass(frozen=True)
class MetricOutlook:
    """The smallest effect of one metric after any number of days, with the power of the plan.

    Attributes:
        metric: Its id.
        days: Days of the log; None where it has no time.
        mde: Relative effect that this experiment could have seen.
        points: Days → relative effect that could be seen then.
        target: The margin of a guardrail; of another metric, a round effect smaller than `mde`.
        target_days: Days until it could be seen, from the start; None beyond a thousand.
        reason: Why there are no numbers, else None.
        variant: The variant compared with control.
        target_units: Units of all variants by then.
    """

    metric: str
    days: float | None
    mde: float | None
    points: tuple[tuple[float, float], ...]
    target: float | None
    target_days: float | None
    reason: str | None
    variant: str = ""
    target_units: float | None = None

    @property
    def more_days(self) -> float | None:
        """Days from now until the target could be seen; None where it cannot be."""
        if self.days is None or self.target_days is None:
            return None
        return max(self.target_days - self.days, 0.0)


@dataclass(frozen=True)
class PowerOutlook:
    """What the goals and guardrails of an experiment can still show, at one level and power.

    Attributes:
        planned_days: Days of the period; None without one.
        next_look: The next of the planned looks: a day (ISO), or a number of units.
    """

    alpha: float
    power: float
    metrics: tuple[MetricOutlook, ...]
    planned_days: float | None = None
    next_look: str | None = None

    def __getitem__(self, metric: str) -> MetricOutlook:
        """The outlook of a metric, in the first variant beside control."""
        return named(self.metrics, "metric", metric)

    def of(self, metric: str, variant: str) -> MetricOutlook | None:
        """The outlook of a row of the scorecard."""
        rows = (one for one in self.metrics if (one.metric, one.variant) == (metric, variant))
        return next(rows, None)
