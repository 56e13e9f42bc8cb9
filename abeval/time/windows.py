"""Compare one metric in one variant on an axis of days: daily, cumulative and rolling windows."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from abeval.aggregates.sums import ByStretch
from abeval.inference import means_and_ratios
from abeval.inference.comparison import Arms, Comparison, Rule
from abeval.metrics.definition import Metric
from abeval.results.windows import AxisName, WindowRow
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from abeval.time.day_sums import DaySums, Known, MetricDays, Span, Strata


@dataclass(frozen=True)
class Axis:
    """Days of one metric, of the calendar or since each unit's entry.

    Attributes:
        name: `calendar` or `exposure`; `hour` or `weekday`, whose places are no days in a row.
        labels: Name of each day: its date, or the number of days since entry.
        sums: Variant → its sums by cohort and day of this axis.
        strata: Groups of cohorts whose traffic was split at the same shares.
        last_cohort: For each day, the last cohort that was observed to its end.
        partial: Whether the log covers each day only partly.
    """

    name: AxisName
    labels: tuple[str, ...]
    sums: Mapping[str, DaySums]
    control: str
    strata: Strata
    last_cohort: tuple[int, ...]
    partial: tuple[bool, ...]
    # Every variant is compared with the same control: all are summed once.
    _summed: dict[tuple[object, ...], list[ByStretch]] = field(
        default_factory=dict, init=False, repr=False
    )

    def windows(self, spans: tuple[Span, ...], strata: Strata, entered: bool) -> list[ByStretch]:
        """Return moments of (y, x) in each window, by group of cohorts and variant.

        Days since entry take only the cohorts that were observed to the window's end, so that
        all its units had the same time.
        """
        key = spans, strata, entered
        if key not in self._summed:
            groups = [self._observed(strata, last) for _, last in spans]
            boxes = [
                (cohorts, span)
                for span, of_span in zip(spans, groups, strict=True)
                for cohorts in of_span
            ]
            moments = {n: iter(sums.windows(boxes, entered)) for n, sums in self.sums.items()}
            self._summed[key] = [
                [{name: next(each) for name, each in moments.items()} for _ in of_span]
                for of_span in groups
            ]
        return self._summed[key]

    def by_day(self, days: tuple[int, ...], strata: Strata) -> ByStretch:
        """Return moments of the days' y and x, by group of cohorts and variant."""
        if (days, strata) not in self._summed:
            last = min(days) if self.name == "exposure" else max(days)
            of_cohorts = [
                {name: sums.by_day(cohorts, days) for name, sums in self.sums.items()}
                for cohorts in self._observed(strata, last)
            ]
            self._summed[days, strata] = [of_cohorts]
        return self._summed[days, strata][0]

    def _observed(self, strata: Strata, day: int) -> Strata:
        """Return the cohorts that were observed to the end of a day."""
        return _kept(strata, range(self.last_cohort[day] + 1)) or ((),)


@dataclass(frozen=True)
class Course:
    """One metric in one variant along an axis.

    `known` says how skewed its values are.
    """

    metric: Metric
    variant: str
    axis: Axis
    known: Known | None = None

    @property
    def arms(self) -> Arms:
        """Control and the variant."""
        return Arms(self.axis.control, self.variant)

    def each_day(self) -> list[means_and_ratios.Pair]:
        """Return moments of (y, x) over the units of each day, in control and in the variant."""
        days = tuple((day, day) for day in range(len(self.axis.labels)))
        windows = self.axis.windows(days, self.axis.strata, entered=False)
        return [means_and_ratios.pair_of(moments, self.arms) for moments in windows]

    def by_day(self, days: Sequence[int]) -> tuple[Moments, Moments]:
        """Return moments of the days' numerators and denominators, in control and in the variant.

        Raises:
            Refusal: `too_few_units` where the two have no stretch of entry days in common.
        """
        moments = self.axis.by_day(tuple(days), self.axis.strata)
        control, treatment = means_and_ratios.pair_of(moments, self.arms)
        if control is None or treatment is None:
            why = f"{self.axis.control} and {self.variant} have no units at the same share"
            raise Refusal("too_few_units", why)
        return control, treatment

    def effects(
        self, spans: Sequence[Span], rule: Rule, entered: bool = False
    ) -> list[tuple[Span, Comparison]]:
        """Return each window with the effect in it, or why there is none.

        If `entered`, units count from their entry on, instead of those active in it.
        """
        windows = self.axis.windows(tuple(spans), self.axis.strata, entered)
        return [
            (span, self._effect(span, window, rule, entered))
            for span, window in zip(spans, windows, strict=True)
        ]

    def _effect(self, span: Span, window: ByStretch, rule: Rule, entered: bool) -> Comparison:
        metric, known = self.metric, self.known
        if known is None:
            return means_and_ratios.compare_within(metric, window, self.arms, rule)
        if self.axis.name == "calendar" and (span, entered) in known.windows:
            return means_and_ratios.compare_moments(metric, *known.windows[span, entered], rule)
        days = 1 if self.axis.name in ("hour", "weekday") else span[1] - span[0] + 1
        pair = means_and_ratios.pair_of(window, self.arms)
        skewness = known.shape.skewness(days), known.shape.scaled
        return means_and_ratios.compare_moments(metric, *pair, rule, skewness=skewness)


def calendar(
    sums: Mapping[str, DaySums],
    control: str,
    strata: Strata,
    days: Sequence[str],
    partial: frozenset[str],
) -> Axis:
    """Return days of the calendar; a cohort is there from its own day on."""
    marked = tuple(day in partial for day in days)
    return Axis("calendar", tuple(days), sums, control, strata, tuple(range(len(days))), marked)


def since_entry(metric: MetricDays, control: str, strata: Strata) -> Axis:
    """Return days since each unit's entry, 0 the day of entry, as far as they were observed."""
    sums = metric.sums(metric.ages)
    observed = sums[control].presence.days
    return Axis(
        name="exposure",
        labels=tuple(str(age) for age in range(observed)),
        sums=sums,
        control=control,
        strata=_kept(strata, range(observed)),
        last_cohort=tuple(observed - 1 - age for age in range(observed)),
        partial=(False,) * observed,
    )


def _kept(strata: Strata, cohorts: Container[int]) -> Strata:
    """Return the strata with these cohorts only."""
    kept = (tuple(cohort for cohort in group if cohort in cohorts) for group in strata)
    return tuple(group for group in kept if group)


Kind = Literal["daily", "cumulative", "rolling"]


def spans(days: int, widths: Sequence[int]) -> dict[Kind, list[Span]]:
    """Return every window on an axis of so many days.

    Example:
        >>> spans(3, [2])["rolling"]
        [(0, 1), (1, 2)]
    """
    return {
        "daily": [(day, day) for day in range(days)],
        "cumulative": [(0, day) for day in range(days)],
        "rolling": [
            (last - width + 1, last)
            for width in dict.fromkeys(width for width in widths if width > 1)
            for last in range(width - 1, days)
        ],
    }


class Window(NamedTuple):
    """The effect in one window of some days, or why there is none."""

    kind: Kind
    span: Span
    comparison: Comparison


def windows_of(course: Course, rule: Rule, widths: Sequence[int]) -> tuple[Window, ...]:
    """Return every window of a metric on one axis."""
    return tuple(
        Window(kind, span, comparison)
        for kind, own in spans(len(course.axis.labels), widths).items()
        if own
        for span, comparison in course.effects(own, rule, entered=kind == "cumulative")
    )


def row_of(
    course: Course, kind: Kind | Literal["recurring"], span: Span, comparison: Comparison
) -> WindowRow:
    """Return a comparison as the row of its window."""
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
