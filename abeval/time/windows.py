"""Compare one metric in one variant on an axis of days: daily, cumulative and rolling windows."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from abeval.aggregates.sums import ByStretch
from abeval.inference.comparison import Arms, Comparison, Rule
from abeval.inference.means_and_ratios import Pair, compare_moments, compare_within, pair_of
from abeval.logs.placing import Stretches
from abeval.metrics.definition import Metric
from abeval.results.windows import AxisName, WindowRow
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from abeval.time.day_sums import DaySums, Known, MetricDays, Span

Strata = tuple[tuple[int, ...], ...]
"""Places of entry days, in groups of one traffic split each: units are compared within them."""


def strata_of(stretches: Stretches, days: Sequence[str]) -> Strata:
    """Return the entry days of each stretch.

    A day within which the split changed, by a schedule, is a group of its own.

    Args:
        stretches: Those of the prepared logs; none where the split did not change.
        days: Every day, ISO.

    Example:
        >>> from abeval.logs.placing import Stretch
        >>> first = Stretch("2026-01-01", "2026-01-02", {}, None)
        >>> second = Stretch("2026-01-03", "2026-01-03", {}, None)
        >>> strata_of((first, second), ["2026-01-01", "2026-01-02", "2026-01-03"])
        ((0, 1), (2,))
    """
    begins = [stretch.start for stretch in stretches[1:]]
    groups: dict[tuple[int, int], list[int]] = {}
    for place, day in enumerate(days):
        # Local times sort after their day, so that a day which a split divides has two numbers.
        at_dawn = sum(start <= day for start in begins)
        at_night = sum(start[:10] <= day for start in begins)
        groups.setdefault((at_dawn, at_night), []).append(place)
    return tuple(tuple(places) for places in groups.values())


@dataclass(frozen=True)
class Axis:
    """Days of one metric, of the calendar or since each unit's entry.

    Attributes:
        name: `calendar` or `exposure`; `hour` or `weekday`, whose places are no days in a row.
        labels: Name of each day: its date, or the number of days since entry.
        sums: Variant → its sums by cohort and day of this axis.
        control: The variant compared with.
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
    _kept: dict[tuple[object, ...], Sequence[ByStretch]] = field(
        default_factory=dict, init=False, repr=False
    )
    _parts: dict[Sequence[int], "Axis"] = field(default_factory=dict, init=False, repr=False)

    def windows(self, spans: tuple[Span, ...], entered: bool = False) -> Sequence[ByStretch]:
        """Return moments of (y, x) in each window, by group of cohorts and variant.

        Days since entry take only the cohorts that were observed to the window's end, so that
        all its units had the same time. Every variant is compared with the same control: windows
        are summed once.
        """
        if spans and (spans, entered) not in self._kept:
            groups = [self._observed(last) or ((),) for _, last in spans]
            boxes = [
                (cohorts, span)
                for span, of_span in zip(spans, groups, strict=True)
                for cohorts in of_span
            ]
            moments = {n: iter(sums.windows(boxes, entered)) for n, sums in self.sums.items()}
            self._kept[spans, entered] = [
                [{name: next(each) for name, each in moments.items()} for _ in of_span]
                for of_span in groups
            ]
        return self._kept[spans, entered] if spans else ()

    def by_day(self, days: tuple[int, ...]) -> ByStretch:
        """Return moments of the days' y and x, by group of cohorts and variant."""
        if days not in self._kept:
            last = min(days) if self.name == "exposure" else max(days)
            of_cohorts = [
                {name: sums.by_day(cohorts, days) for name, sums in self.sums.items()}
                for cohorts in self._observed(last) or ((),)
            ]
            self._kept[days] = [of_cohorts]
        return self._kept[days][0]

    def of_cohorts(self, cohorts: Sequence[int]) -> "Axis":
        """Return the same axis for some of the cohorts, the same each time."""
        own = tuple(cohorts)
        if own not in self._parts:
            self._parts[own] = replace(self, strata=_kept(self.strata, set(own)))
        return self._parts[own]

    def _observed(self, day: int) -> Strata:
        """Return the cohorts that were observed to the end of a day."""
        return _kept(self.strata, range(self.last_cohort[day] + 1))


@dataclass(frozen=True)
class Course:
    """One metric in one variant along an axis.

    Attributes:
        metric: The metric.
        variant: The variant.
        axis: The axis.
        known: How skewed its values are, None where that is not known.
    """

    metric: Metric
    variant: str
    axis: Axis
    known: Known | None = None

    def each_day(self) -> list[Pair]:
        """Return moments of (y, x) over the units of each day, in control and in the variant."""
        days = tuple((day, day) for day in range(len(self.axis.labels)))
        return [pair_of(moments, self.arms) for moments in self.axis.windows(days)]

    @property
    def arms(self) -> Arms:
        """Control and the variant."""
        return Arms(self.axis.control, self.variant)

    def by_day(self, days: Sequence[int]) -> tuple[Moments, Moments]:
        """Return moments of the days' numerators and denominators, in control and in the variant.

        Raises:
            Refusal: `too_few_units` where the two have no stretch of entry days in common.
        """
        control, treatment = pair_of(self.axis.by_day(tuple(days)), self.arms)
        if control is None or treatment is None:
            why = f"{self.axis.control} and {self.variant} have no units at the same share"
            raise Refusal("too_few_units", why)
        return control, treatment

    def effects(
        self, spans: Sequence[Span], rule: Rule, entered: bool = False
    ) -> Iterator[tuple[Span, Comparison]]:
        """Each window with the effect in it, or why there is none.

        Args:
            spans: The windows.
            rule: How effects are judged.
            entered: Whether units count from their entry on, instead of those active in it.
        """
        for span, window in zip(spans, self.axis.windows(tuple(spans), entered), strict=True):
            yield span, self._effect(span, window, rule, entered)

    def _effect(self, span: Span, window: ByStretch, rule: Rule, entered: bool) -> Comparison:
        if self.known is None:
            return compare_within(self.metric, window, self.arms, rule)
        if self.axis.name == "calendar" and (span, entered) in self.known.windows:
            return compare_moments(self.metric, *self.known.windows[span, entered], rule)
        days = 1 if self.axis.name in ("hour", "weekday") else span[1] - span[0] + 1
        arms = pair_of(window, self.arms)
        skewness = self.known.shape.skewness(days), self.known.shape.scaled
        return compare_moments(self.metric, *arms, rule, skewness=skewness)


def calendar(
    metric: MetricDays,
    control: str,
    strata: Strata,
    days: Sequence[str],
    partial: frozenset[str],
) -> Axis:
    """Days of the calendar; a cohort is there from its own day on."""
    marked = tuple(day in partial for day in days)
    sums = metric.sums(metric.days)
    return Axis("calendar", tuple(days), sums, control, strata, tuple(range(len(days))), marked)


def since_entry(metric: MetricDays, control: str, strata: Strata) -> Axis:
    """Days since each unit's entry, 0 the day of entry, as far as they were observed."""
    sums = metric.sums(metric.ages)
    (observed,) = {one.presence.days for one in sums.values()}
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
    """The effect in one window.

    Attributes:
        kind: Its kind.
        span: Its days.
        comparison: The effect, or why there is none.
    """

    kind: Kind
    span: Span
    comparison: Comparison


def windows_of(course: Course, rule: Rule, widths: Sequence[int]) -> tuple[Window, ...]:
    """Return every window of a metric on one axis."""
    return tuple(
        Window(kind, span, comparison)
        for kind, own in spans(len(course.axis.labels), widths).items()
        for span, comparison in course.effects(own, rule, entered=kind == "cumulative")
    )


def window_rows(course: Course, windows: Sequence[Window]) -> tuple[WindowRow, ...]:
    """Return the rows of windows."""
    return tuple(row_of(course, *window) for window in windows)


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
