"""Days of the calendar, days since entry, and the moments of windows on both.

`time/analysis.py` makes axes of the `DaySums` of each metric; the other modules of `time/`, such as
`time/windows.py`, compute effects on a `Course` along them.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from abeval.inference.comparison import Comparison, Rule, refused
from abeval.inference.means_and_ratios import compare_moments
from abeval.metrics.definition import Metric
from abeval.results.windows import AxisName
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal
from abeval.stats.windows import stratified
from abeval.time.day_sums import DaySums, Span
from abeval.time.ramps import Strata

Arms = tuple[Moments, Moments]


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

    def window(self, variant: str, span: Span, entered: bool = False) -> Arms:
        """Moments of (y, x) in control and in a variant, over the units of a window.

        Days since entry take only the cohorts that were observed to the window's end, so that
        all its units had the same time.

        Raises:
            Refusal: `too_few_units` where no stratum has two units in both variants.
        """
        return self._weighted(
            variant,
            [
                tuple(self.sums[v].window(cohorts, span, entered) for v in (self.control, variant))
                for cohorts in self._observed(span[1])
            ],
        )

    def by_day(self, variant: str, days: Sequence[int]) -> Arms:
        """Moments of the days' numerators and denominators, over all units.

        Raises:
            Refusal: As `window`.
        """
        return self._weighted(
            variant,
            [
                tuple(self.sums[v].by_day(cohorts, days) for v in (self.control, variant))
                for cohorts in self._observed(min(days) if self.name == "exposure" else max(days))
            ],
        )

    def of_cohorts(self, cohorts: Sequence[int]) -> "Axis":
        """The same axis for some of the cohorts."""
        return replace(self, strata=_kept(self.strata, set(cohorts)))

    def _observed(self, day: int) -> Strata:
        """The cohorts that were observed to the end of a day."""
        return _kept(self.strata, range(self.last_cohort[day] + 1))

    def _weighted(self, variant: str, strata: Sequence[tuple[Moments, ...]]) -> Arms:
        """Control and variant: as they are, or weighted by the strata's share of both."""
        if len(self.strata) == 1 and strata:
            return strata[0][0], strata[0][1]
        kept = [arms for arms in strata if min(arm.n for arm in arms) >= 2]
        total = sum(arm.n for arms in kept for arm in arms)
        if not total:
            raise Refusal("too_few_units", f"control and {variant} have no units at the same share")
        shares = [sum(arm.n for arm in arms) / total for arms in kept]
        control, treatment = (stratified([arms[side] for arms in kept], shares) for side in (0, 1))
        return control, treatment


@dataclass(frozen=True)
class Course:
    """One metric in one variant along an axis."""

    metric: Metric
    variant: str
    axis: Axis

    def window(self, span: Span, entered: bool = False) -> Arms:
        """As `Axis.window`."""
        return self.axis.window(self.variant, span, entered)

    def by_day(self, days: Sequence[int]) -> Arms:
        """As `Axis.by_day`."""
        return self.axis.by_day(self.variant, days)

    def effect(self, span: Span, rule: Rule, entered: bool) -> Comparison:
        """The effect in one window, or why there is none.

        Args:
            span: The window.
            rule: How effects are judged.
            entered: Whether units count from their entry on, instead of those active in it.
        """
        try:
            control, treatment = self.window(span, entered)
        except Refusal:
            return refused(0, 0, "no_units")
        return compare_moments(self.metric, control, treatment, rule)


def calendar(
    sums: Mapping[str, DaySums],
    control: str,
    strata: Strata,
    days: Sequence[str],
    partial: frozenset[str],
) -> Axis:
    """Days of the calendar; a cohort is there from its own day on."""
    size = len(days)
    marked = tuple(day in partial for day in days)
    return Axis("calendar", tuple(days), sums, control, strata, tuple(range(size)), marked)


def since_entry(days: Axis) -> Axis:
    """The days of a calendar by days since each unit's entry, 0 the day of entry.

    A partial last day is left out.
    """
    size = len(days.labels)
    observed = size - 1 if size > 1 and days.partial[-1] else size
    return Axis(
        name="exposure",
        labels=tuple(str(age) for age in range(observed)),
        sums={name: sums.upto(observed).by_age() for name, sums in days.sums.items()},
        control=days.control,
        strata=_kept(days.strata, range(observed)),
        last_cohort=tuple(observed - 1 - age for age in range(observed)),
        partial=(False,) * observed,
    )


def _kept(strata: Strata, cohorts: Container[int]) -> Strata:
    """The strata with these cohorts only."""
    kept = (tuple(cohort for cohort in group if cohort in cohorts) for group in strata)
    return tuple(group for group in kept if group)
