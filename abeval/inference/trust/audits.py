"""Compare shares of rows between variants, as audits count them.

Each unit has a share of its rows that is counted (for a bot, all of
them). If the means of these shares surely differ, with a chance of an error of 1e-6 over all cells
of the check, its value is the difference of the shares of all rows. Heavy units do not matter,
because each unit counts once. These checks need no part of the budget of false alarms.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from abeval.aggregates.aggregates import Aggregates, UnitShares
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.comparison import MIN_UNITS
from abeval.inference.trust.finding import RawCheck, skip_check
from abeval.results import format as fmt
from abeval.stats.faults import Sums, compare_shares, differs
from abeval.stats.records import Integers

Cells = Mapping[str, Mapping[str, UnitShares]]
"""Cell → variant → what an audit counts there."""

SHOWN = 3
"""Cells that a message lists at most."""


class UnevenShare(NamedTuple):
    """A share that differs between control and a variant by at least `sure`."""

    cell: str
    variant: str
    control: float
    treatment: float
    sure: float

    @property
    def lacking(self) -> float:
        """Return how much smaller the smaller share is, relative to the larger."""
        return 1 - min(self.control, self.treatment) / max(self.control, self.treatment)


WEEK = 7
"""Days before and after a day that it is compared with."""


def sum_groups(y: Integers, x: Integers) -> list[Sums]:
    """Sum y and x over the groups of units that have any rows, with their products.

    Both have shape (rows, groups), and x may be one row for all; each row has its sums.
    """
    y, x = np.broadcast_arrays(y, x)
    products = [(first * second).sum(axis=-1) for first, second in ((y, y), (y, x), (x, x))]
    sums = [np.count_nonzero(y | x, axis=-1), y.sum(axis=-1), x.sum(axis=-1), *products]
    return [Sums(*row) for row in np.stack(sums, axis=-1).tolist()]


def sum_day_windows(rows: Integers, first: int, until: int) -> Integers:
    """Sum the rows of a window of days at each day of a log.

    The window goes from day + `first` to before day + `until`.
    """
    day, sums = np.arange(len(rows)), np.concatenate([np.zeros_like(rows[:1]), rows.cumsum(axis=0)])
    bounds = (np.clip(day + shift, 0, len(rows)) for shift in (until, first))
    windows: Integers = np.subtract(*(sums[bound] for bound in bounds))
    return windows


def list_comparable_variants(analysis: Analysis) -> list[str]:
    """List the variants that can be compared with control."""
    experiment, units_of = analysis.experiment, analysis.aggregates.count_units
    names = experiment.treatments if units_of(experiment.control) >= MIN_UNITS else []
    return [variant for variant in names if units_of(variant) >= MIN_UNITS]


def note_small_variants(analysis: Analysis, finding: RawCheck) -> RawCheck:
    """Name variants with too few units, or skip a check without any pair."""
    counts = {v: analysis.aggregates.count_units(v) for v in analysis.experiment.variants}
    few = [f"{variant} has {n:,} units" for variant, n in counts.items() if n < MIN_UNITS]
    if not few or finding.value is None:
        return finding
    units = fmt.join_items(few)
    if not list_comparable_variants(analysis):
        return skip_check(f"{units}, and a comparison needs {MIN_UNITS}", finding.name)
    also = f"; {units} of the {MIN_UNITS} that a comparison needs"
    calm, alarm = finding.calm, finding.alarm or finding.calm
    return finding._replace(calm=calm + also, alarm=alarm + also)


def find_uneven_shares(analysis: Analysis, cells: Cells) -> list[UnevenShare]:
    """Find the cells whose shares surely differ from control, largest first."""
    control = analysis.experiment.control
    # The chance of an error is divided among all comparisons.
    several = max(1, len(cells) * len(analysis.experiment.treatments))
    differ = [
        UnevenShare(
            cell, variant, base.share, rows[variant].share, abs(rows[variant].share - base.share)
        )
        for cell, rows in cells.items()
        for variant in list_comparable_variants(analysis)
        if (base := rows.get(control)) and variant in rows
        if differs(base.sums, rows[variant].sums, several)
    ]
    return sorted(differ, key=lambda share: -share.sure)


class Loss(NamedTuple):
    """Rows that one of two variants surely lacks on a day, by those of other days.

    Attributes:
        day: Index of the day.
        variant: The variant that is compared with control.
        short: The one of the two that lacks rows.
        lost: The share of its rows that it lacks, relative to the other.
        sure: By how much the shares of the rows that are of the day surely differ.
        sums: Rows of the day, and with those of the other days, in control and in the variant.
    """

    day: int
    variant: str
    short: str
    lost: float
    sure: float
    sums: tuple[Sums, Sums]


def find_losses(
    analysis: Analysis, rows: Integers, others: Integers, least: float, chance: float
) -> Iterator[Loss]:
    """Find the days on which one variant surely lacks rows.

    The rows of a day are compared with those of other days and of the other variant.

    Args:
        analysis: The experiment and its counts.
        rows: Rows of each day, shape (days, variants, groups).
        others: Rows of the days that it is compared with.
        least: Smallest loss to find.
        chance: Chance that a variant is wrongly found on one day.
    """
    names, comparable = [*analysis.experiment.variants], list_comparable_variants(analysis)
    control = names.index(analysis.experiment.control)
    of_day, of_others = rows.sum(axis=2), others.sum(axis=2)
    # Rows of the day times the other variant's rows of other days.
    control_rows, variant_rows = of_day[:, [control]] * of_others, of_day * of_others[:, [control]]
    most: Integers = np.maximum(control_rows, variant_rows)
    lost = np.where(most > 0, 1 - np.minimum(control_rows, variant_rows) / np.maximum(most, 1), 0.0)
    for day, arm in np.argwhere(lost >= least).tolist():
        pair = rows[day, [control, arm]]
        base, treatment = sum_groups(pair, pair + others[day, [control, arm]])
        result = compare_shares(base, treatment, chance=chance)
        if names[arm] in comparable and result is not None and result.sure > 0:
            short = names[arm if variant_rows[day, arm] < control_rows[day, arm] else control]
            loss = float(lost[day, arm])
            yield Loss(day, names[arm], short, loss, result.sure, (base, treatment))


def read_audit(aggregates: Aggregates, audit: str) -> dict[str, dict[str, UnitShares]]:
    """Return the counts of an audit by cell and variant; empty if the logs lack it."""
    cells: dict[str, dict[str, UnitShares]] = {}
    for row in aggregates.shares.get(audit, ()):
        cells.setdefault(row.cell, {})[row.variant] = row
    return cells


def read_audit_segments(aggregates: Aggregates, audit: str) -> dict[str, Mapping[str, UnitShares]]:
    """Return the counts of an audit by cell of each segment."""
    segments = (name for name in aggregates.shares if name.startswith(f"{audit}:"))
    return {
        f"{name.partition(':')[2]} = {cell!r}": sums
        for name in segments
        for cell, sums in read_audit(aggregates, name).items()
    }


def find_largest_sure_difference(differing: Iterable[UnevenShare]) -> float:
    """Return the largest sure difference, 0 without one."""
    return max((share.sure for share in differing), default=0.0)


def pool_variant_shares(cells: Cells) -> dict[str, float]:
    """Return each variant's share over all cells."""
    above, below = Counter[str](), Counter[str]()
    for cell in cells.values():
        for variant, row in cell.items():
            above[variant] += row.y
            below[variant] += row.x
    return {variant: above[variant] / x for variant, x in below.items() if x}


def describe_shares(experiment: Experiment, differing: Sequence[UnevenShare]) -> str:
    """Describe cells with both shares, as in `score (control 0.1 %, new 30.2 %)`."""
    texts = [
        f"{share.cell} ({experiment.control} {format_percent(share.control)}, "
        f"{share.variant} {format_percent(share.treatment)})"
        for share in differing[:SHOWN]
    ]
    more = len(differing) - SHOWN
    return fmt.join_items(texts) + (f" and {more} more" if more > 0 else "")


def format_percent(value: float) -> str:
    """Write a share in percent, with one more digit if it is small."""
    return f"{value:.2%}" if value < 0.0995 else f"{value:.1%}"


def format_variant_shares(shares: Mapping[str, float]) -> str:
    """Write the share of each variant in percent."""
    return ", ".join(f"{variant} {format_percent(share)}" for variant, share in shares.items())
