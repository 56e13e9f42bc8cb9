"""Compare one metric in one variant in windows along an axis of days."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from abeval.aggregates.sums import MomentsByPeriod
from abeval.inference import means_and_ratios
from abeval.inference.aa import compute_skewness
from abeval.inference.comparison import Arms, Comparison, Rule
from abeval.inference.special_tests import Shape
from abeval.logs.placing import SplitPeriods
from abeval.metrics.definition import Metric
from abeval.results.record import group_rows
from abeval.stats import skewed
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from abeval.stats.skewed import Skewed
from abeval.time.daily_table import DaySums, MetricDays, Span

if TYPE_CHECKING:
    from abeval.results.windows import AxisName, WindowRow

_Sums = TypeVar("_Sums")

Strata = tuple[tuple[int, ...], ...]
"""Indices of entry days, grouped by traffic split: units are compared within groups."""


def group_entry_days(split_periods: SplitPeriods, days: Sequence[str]) -> Strata:
    """Group the entry days by split period.

    A day within which the split changed, by a schedule, is a group of its own.

    Example:
        >>> from abeval.logs.placing import SplitPeriod
        >>> first = SplitPeriod("2026-01-01", "2026-01-02", {}, None)
        >>> second = SplitPeriod("2026-01-03", "2026-01-03", {}, None)
        >>> group_entry_days((first, second), ["2026-01-01", "2026-01-02", "2026-01-03"])
        ((0, 1), (2,))
    """
    begins = [split_period.start for split_period in split_periods[1:]]
    groups: dict[tuple[int, int], list[int]] = {}
    for number, day in enumerate(days):
        # Local times sort after their day, so that a day which a split divides has two numbers.
        at_dawn = sum(start <= day for start in begins)
        at_night = sum(start[:10] <= day for start in begins)
        groups.setdefault((at_dawn, at_night), []).append(number)
    return tuple(tuple(group) for group in groups.values())


_ByVariant = Mapping[str, Moments]
"""Variant → moments of (y, x), with third ones."""


@dataclass(frozen=True)
class ThirdMoments:
    """Hold one metric's moments with third ones: of each day, and of all days."""

    days: Mapping[str, _ByVariant]
    all_days: _ByVariant


class SkewnessInputs(NamedTuple):
    """Hold what is known of a metric's skewness in a variant and control.

    `windows` are moments of both in days of the calendar, whether units count from entry; `shape`
    says how skewed values are in others.
    """

    windows: Mapping[tuple[Span, bool], tuple[Moments, Moments]]
    shape: Shape


def find_skewness_inputs(
    metric: Metric, thirds: ThirdMoments, arms: Arms, days: Sequence[str]
) -> SkewnessInputs | None:
    """Find what is known of a metric's skewness in two variants.

    None where nothing is.
    """
    all_days = ((0, len(days) - 1), True)
    moments = {((i, i), False): thirds.days.get(day, {}) for i, day in enumerate(days)}
    windows = {
        key: (of_arms[arms.control], of_arms[arms.treatment])
        for key, of_arms in {**moments, all_days: thirds.all_days}.items()
        if all(name in of_arms for name in arms)
    }
    compared = {key: _compare_skewed(metric, *pair) for key, pair in windows.items()}
    of_all = compared.pop(all_days, None)
    of_days = [day for day in compared.values() if day is not None]
    if of_all is None or not of_days:
        return None
    units = sum(day.units for day in of_days)
    of_day = sum(compute_skewness(day) * day.units for day in of_days) / units
    scaled = of_all.scaled and all(day.scaled for day in of_days)
    return SkewnessInputs(windows, Shape(of_day, compute_skewness(of_all), len(days), scaled))


def _compare_skewed(metric: Metric, control: Moments, treatment: Moments) -> Skewed | None:
    terms = (0,) if metric.kind == "mean" else (0, 1)
    compare = skewed.means if metric.kind == "mean" else skewed.ratios
    try:
        return compare(control.pick(*terms), treatment.pick(*terms))
    except Refusal:
        return None


@dataclass(frozen=True)
class Axis:
    """Describe the days of one metric, of the calendar or since each unit's entry.

    Attributes:
        name: `calendar` or `exposure`; `hour` or `weekday`, whose positions are no days in a row.
        labels: Name of each day: its date, or the number of days since entry.
        sums: The values of its units on these days; None where windows have sums of their own.
        strata: Groups of cohorts whose traffic was split at the same shares.
        last_cohort: For each day, the last cohort that was observed to its end.
        partial: Whether the log covers each day only partly.
    """

    name: "AxisName"
    labels: tuple[str, ...]
    sums: DaySums | None
    control: str
    strata: Strata
    last_cohort: tuple[int, ...]
    partial: tuple[bool, ...]
    # Every variant is compared with the same control: all are summed once.
    _summed: dict[tuple[Span, bool] | tuple[int, ...], MomentsByPeriod] = field(
        default_factory=dict, init=False, repr=False
    )

    def sum_windows(self, windows: Iterable[tuple[Span, bool]]) -> None:
        """Sum windows, if units count from entry on or not; those with one end at once."""
        missing = [window for window in windows if window not in self._summed]
        for last, ending in group_rows(missing, lambda window: window[0][1]).items():
            starts = [(span[0], entered) for span, entered in ending]
            groups = self._sum_cohorts(last, DaySums.sum_windows, last, starts)
            for i, window in enumerate(ending):
                of_window = [{name: found[i] for name, found in group.items()} for group in groups]
                self._summed[window] = of_window

    def window(self, span: Span, entered: bool) -> MomentsByPeriod:
        """Return moments of (y, x) in a window, by cohort group and variant."""
        self.sum_windows([(span, entered)])
        return self._summed[span, entered]

    def sum_each_day(self, days: tuple[int, ...]) -> MomentsByPeriod:
        """Return moments of the days' y and x, by cohort group and variant."""
        if days not in self._summed:
            last = min(days) if self.name == "exposure" else max(days)
            self._summed[days] = self._sum_cohorts(last, DaySums.sum_each_day, days)
        return self._summed[days]

    def _sum_cohorts(
        self, last: int, add: Callable[..., _Sums], *inputs: object
    ) -> list[dict[str, _Sums]]:
        """Add up the cohorts that were observed to the end of a day."""
        sums = self.sums
        if sums is None:
            return []
        return [
            {name: add(sums, name, cohorts, *inputs) for name in sums.table.variants}
            # So all units of a window of days since entry had the same time.
            for cohorts in _restrict_strata(self.strata, range(self.last_cohort[last] + 1)) or ((),)
        ]


@dataclass(frozen=True)
class Course:
    """Hold one metric in one variant along an axis.

    `skewness_inputs` say how skewed its values are.
    """

    metric: Metric
    variant: str
    axis: Axis
    skewness_inputs: SkewnessInputs | None = None

    @property
    def arms(self) -> Arms:
        """Return control and the variant."""
        return Arms(self.axis.control, self.variant)

    def each_day(self) -> list[means_and_ratios.Pair]:
        """Return moments of (y, x) of each day, in control and in the variant."""
        windows = (self.axis.window((day, day), False) for day in range(len(self.axis.labels)))
        return [means_and_ratios.pool_pair(moments, self.arms) for moments in windows]

    def sum_each_day(self, days: Sequence[int]) -> tuple[Moments, Moments]:
        """Return moments of the days' y and x, in control and in the variant.

        Raises:
            Refusal: `too_few_units` where the two have no split period in common.
        """
        sums = self.axis.sum_each_day(tuple(days))
        control, treatment = means_and_ratios.pool_pair(sums, self.arms)
        if control is None or treatment is None:
            why = f"{self.axis.control} and {self.variant} have no units at the same share"
            raise Refusal("too_few_units", why)
        return control, treatment

    def effect(self, span: Span, rule: Rule, entered: bool = False) -> Comparison:
        """Return the effect in a window, or why there is none.

        If `entered`, units count from their entry on, instead of those active in it.
        """
        axis, metric, inputs = self.axis, self.metric, self.skewness_inputs
        if inputs is None:
            window = axis.window(span, entered)
            return means_and_ratios.compare_within(metric, window, self.arms, rule)
        if axis.name == "calendar" and (span, entered) in inputs.windows:
            return means_and_ratios.compare_moments(metric, *inputs.windows[span, entered], rule)
        days = 1 if axis.name in ("hour", "weekday") else span[1] - span[0] + 1
        pair = means_and_ratios.pool_pair(axis.window(span, entered), self.arms)
        skewness = inputs.shape.skewness(days), inputs.shape.scaled
        return means_and_ratios.compare_moments(metric, *pair, rule, skewness=skewness)


def build_calendar_axis(
    sums: DaySums | None,
    control: str,
    strata: Strata,
    days: Sequence[str],
    partial: frozenset[str],
) -> Axis:
    """Make the axis of calendar days; a cohort counts from its own day on."""
    marked = tuple(day in partial for day in days)
    return Axis("calendar", tuple(days), sums, control, strata, tuple(range(len(days))), marked)


def build_entry_axis(metric: MetricDays, control: str, strata: Strata) -> Axis:
    """Make the axis of days since each unit's entry.

    It has as many ages as days were observed; at each, only cohorts that have reached it are
    compared. Units are compared within `strata`, groups of cohorts (days of entry).
    """
    observed = metric.table.observed
    return Axis(
        name="exposure",
        labels=tuple(str(age) for age in range(observed)),
        sums=metric.sum_days(since_entry=True),
        control=control,
        strata=_restrict_strata(strata, range(observed)),
        last_cohort=tuple(observed - 1 - age for age in range(observed)),
        partial=(False,) * observed,
    )


def _restrict_strata(strata: Strata, cohorts: Container[int]) -> Strata:
    """Restrict strata to some cohorts, without empty ones."""
    kept = (tuple(cohort for cohort in group if cohort in cohorts) for group in strata)
    return tuple(group for group in kept if group)


_Kind = Literal["daily", "cumulative", "rolling"]


def list_spans(days: int, widths: Sequence[int]) -> list[tuple[_Kind, Span]]:
    """List every window on an axis of so many days, with its kind.

    Example:
        >>> list_spans(3, [2])[6:]
        [('rolling', (0, 1)), ('rolling', (1, 2))]
    """
    daily: list[tuple[_Kind, Span]] = [("daily", (day, day)) for day in range(days)]
    cumulative: list[tuple[_Kind, Span]] = [("cumulative", (0, day)) for day in range(days)]
    rolling: list[tuple[_Kind, Span]] = [
        ("rolling", (last - width + 1, last))
        for width in dict.fromkeys(width for width in widths if width > 1)
        for last in range(width - 1, days)
    ]
    return daily + cumulative + rolling


class Window(NamedTuple):
    """Hold the effect in one window of some days, or why there is none."""

    kind: _Kind
    span: Span
    comparison: Comparison


def compute_windows(course: Course, rule: Rule, widths: Sequence[int]) -> tuple[Window, ...]:
    """Compute every window of a metric on one axis."""
    spans = list_spans(len(course.axis.labels), widths)
    windows = [(kind, span, kind == "cumulative") for kind, span in spans]
    course.axis.sum_windows((span, entered) for _, span, entered in windows)
    return tuple(
        Window(kind, span, course.effect(span, rule, entered)) for kind, span, entered in windows
    )


def build_row(
    course: Course, kind: _Kind | Literal["recurring"], span: Span, comparison: Comparison
) -> "WindowRow":
    """Build the row of a window from its comparison."""
    # Not at the top: a growth has no rows of windows.
    from abeval.results.windows import WindowRow

    first, last = span
    axis = course.axis
    return WindowRow(
        metric=course.metric.name,
        variant=course.variant,
        axis=axis.name,
        kind=kind,
        days=last - first + 1,
        start=axis.labels[first],
        end=axis.labels[last],
        partial=any(axis.partial[first : last + 1]),
        **vars(comparison.numbers),
        reason=comparison.reason,
    )
