"""Hold the smallest effects that an experiment can detect, and how long it needs."""

from typing import ClassVar

from abeval.results.record import Frozen, Tabled, find_row


class Plan(Frozen):
    """The units and days that one metric needs.

    Attributes:
        baseline: The metric's value in control, after the days of the plan.
        sd: Standard deviation between units after these days, of the value or of the linearised
            ratio. It includes CUPED, strata or caps if the experiment uses them.
        mde: Smallest relative effect detected with `power`: the requested one, or the one that
            `days` allow. For a guardrail with a margin: the loss ruled out with `power` if nothing
            moves, which is its margin, or the one that `days` allow.
        days: Days needed at the traffic of the log, from the start of the period.
        clusters: If clusters were randomised: the total number of clusters that suffices in the
            days of the log.
        units_test: For interleaved lists only: units in both variants of an A/B test that detects
            the same difference. There `mde` is a preference, and every one of `units` sees both
            rankers.
    """

    metric: str
    role: str
    baseline: float | None = None
    sd: float | None = None
    mde: float | None = None
    units_control: float | None = None
    units: float | None = None
    days: float | None = None
    reason: str | None = None
    clusters: float | None = None
    units_test: float | None = None


class DecisionPlan(Frozen):
    """How often an experiment ends in each decision.

    Attributes:
        looks: Number of planned looks at which the experiment may end; 1 for one look at the end.
        mde: Assumed relative effect on every goal, in its good direction; no guardrail moves.
        ship_one: How often it ends in ship if only the first goal has the effect.
        ship_none: How often it ends in ship if nothing moves.
        stop_none: How often it ends in do not ship if nothing moves.
    """

    goals: int
    guardrails: int
    family: str
    looks: int
    mde: float | None = None
    units: float | None = None
    days: float | None = None
    ship: float | None = None
    ship_one: float | None = None
    ship_none: float | None = None
    stop_none: float | None = None
    reason: str | None = None


class Plans(Tabled[Plan]):
    """The plans of several metrics, and of the decision on all of them."""

    ROWS: ClassVar = ("plans", "metric")
    TABLES: ClassVar = "short:tabulate_plans"

    alpha: float
    power: float
    looks: str
    plans: tuple[Plan, ...]
    decision: DecisionPlan | None = None
    notes: tuple[str, ...] = ()


class MetricOutlook(Frozen):
    """The smallest detectable effect of one metric, by number of days.

    Attributes:
        days: Days of the log; None if it has no time.
        points: Number of days → relative effect that can be detected after them.
        target: Effect to detect: the margin of a guardrail, or a round effect smaller than `mde`.
        target_days: Days from the start until `target` can be detected; None beyond a thousand.
        target_units: Units of all variants after `target_days`.
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
        """Return the days until the target is detectable; None if never."""
        if self.days is None or self.target_days is None:
            return None
        return max(self.target_days - self.days, 0.0)


class PowerOutlook(Frozen):
    """What goals and guardrails can still detect, at one level and power.

    `next_look` is the next of the planned looks: a day (ISO), or a number of units.
    """

    alpha: float
    power: float
    metrics: tuple[MetricOutlook, ...]
    planned_days: float | None = None
    next_look: str | None = None

    def __getitem__(self, metric: str) -> MetricOutlook:
        """Return the outlook of a metric, in the first variant beside control."""
        return find_row(self.metrics, metric, "metric")

    def find(self, metric: str, variant: str) -> MetricOutlook | None:
        """Return the outlook of a scorecard row."""
        # Rows of diagnostics have no outlook.
        rows = (row for row in self.metrics if (row.metric, row.variant) == (metric, variant))
        return next(rows, None)
