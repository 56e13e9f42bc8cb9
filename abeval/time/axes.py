"""The two ways to count days, and the moments of windows on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
        strata: Cohorts that were dealt out at the same shares.
        last_cohort: For each day, the last cohort that has been there to its end.
        partial: Whether each day is only partly covered.
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

        Days since entry take only the cohorts that have been seen to the window's end, so that
        all its units have had as long.

        Raises:
            Refusal: `too_few_units` where no stratum has two units in both variants.
        """
        return self._weighed(
            variant,
            [
                tuple(
                    self.sums[name].window(cohorts, span, entered)
                    for name in (self.control, variant)
                )
                for cohorts in self._strata(span[1])
            ],
        )

    def by_day(self, variant: str, days: Sequence[int]) -> Arms:
        """Moments of the days' numerators and denominators, over all units.

        Raises:
            Refusal: As `window`.
        """
        return self._weighed(
            variant,
            [
                tuple(self.sums[name].by_day(cohorts, days) for name in (self.control, variant))
                for cohorts in self._strata(min(days) if self.name == "exposure" else max(days))
            ],
        )

    def of_cohorts(self, cohorts: Sequence[int]) -> "Axis":
        """The same axis for some of the cohorts."""
        chosen = set(cohorts)
        kept = (tuple(c for c in group if c in chosen) for group in self.strata)
        strata = tuple(group for group in kept if group)
        return Axis(
            self.name,
            self.labels,
            self.sums,
            self.control,
            strata,
            self.last_cohort,
            self.partial,
        )

    def _strata(self, day: int) -> list[tuple[int, ...]]:
        last = self.last_cohort[day]
        groups = [tuple(c for c in group if c <= last) for group in self.strata]
        return [group for group in groups if group]

    def _weighed(self, variant: str, pairs: Sequence[tuple[Moments, ...]]) -> Arms:
        """One pair of moments: as they are, or weighed by the strata's share of both variants."""
        if len(self.strata) == 1 and pairs:
            return pairs[0][0], pairs[0][1]
        kept = [pair for pair in pairs if min(arm.n for arm in pair) >= 2]
        total = sum(arm.n for pair in kept for arm in pair)
        if not total:
            raise Refusal("too_few_units", f"no units of control and {variant} at the same share")
        shares = [sum(arm.n for arm in pair) / total for pair in kept]
        control, treatment = (stratified([pair[side] for pair in kept], shares) for side in (0, 1))
        return control, treatment


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


def since_entry(
    sums: Mapping[str, DaySums], control: str, strata: Strata, partial: Sequence[bool]
) -> Axis:
    """Days since each unit's entry, 0 the day of entry; a partial last day is left out."""
    size = len(partial)
    seen = size - 1 if size > 1 and partial[-1] else size
    moved = {name: found.upto(seen).by_age() for name, found in sums.items()}
    kept = (tuple(c for c in group if c < seen) for group in strata)
    whole = tuple(group for group in kept if group)
    labels = tuple(str(age) for age in range(seen))
    last = tuple(seen - 1 - age for age in range(seen))
    return Axis("exposure", labels, moved, control, whole, last, (False,) * seen)
