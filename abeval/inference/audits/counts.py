"""What the audits counted, by audit, cell and variant, and where variants differ for sure.

Every module of checks beside this one reads the aggregates through it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.comparison import MIN_UNITS
from abeval.inference.trust.finding import skipped
from abeval.results import Check
from abeval.results import format as fmt
from abeval.stats.faults import SURE, Difference, Sums, difference

Cells = Mapping[str, Mapping[str, Sums]]
"""Cell → variant → sums."""

SHOWN = 3
"""So many cells are listed in a message."""


class Uneven(NamedTuple):
    """A share that differs between control and another variant.

    Attributes:
        cell: Of the audit.
        variant: The other variant.
        difference: Both shares, and by how much they differ for sure.
    """

    cell: str
    variant: str
    difference: Difference

    @property
    def worse(self) -> float:
        """The larger share."""
        return max(self.difference.control, self.difference.treatment)

    @property
    def better(self) -> float:
        """The smaller share."""
        return min(self.difference.control, self.difference.treatment)


def cells_of(aggregates: Aggregates, audit: str) -> Cells:
    """The sums of an audit; empty if these logs do not have it."""
    cells: dict[str, dict[str, Sums]] = {}
    for one in aggregates.audit_rows.get(audit, ()):
        sums = Sums(one.clusters, one.y, one.x, one.y_y, one.y_x, one.x_x)
        cells.setdefault(one.cell, {})[one.variant] = sums
    return cells


def too_few(analysis: Analysis) -> dict[str, int]:
    """Variants with too few units to be compared, and how many they have.

    Of fewer units all may be alike by chance, and no variance says so.
    """
    counts = {v: analysis.aggregates.units_of(v) for v in analysis.experiment.variants}
    return {variant: units for variant, units in counts.items() if units < MIN_UNITS}


def compared(analysis: Analysis) -> list[str]:
    """The variants that are compared with control: none where control has too few units."""
    few = too_few(analysis)
    if analysis.experiment.control in few:
        return []
    return [variant for variant in analysis.experiment.treatments if variant not in few]


def without_few(analysis: Analysis, check: Check) -> Check:
    """A check of differences, which names variants with too few units, or is skipped for them."""
    few = too_few(analysis)
    if not few or check.status == "skipped":
        return check
    units = listing([f"{variant} has {n:,} units" for variant, n in few.items()])
    if not compared(analysis):
        return skipped(check.name, f"{units}, and a comparison needs {MIN_UNITS}")
    message = f"{check.message}; {units} of the {MIN_UNITS} that a comparison needs"
    return replace(check, message=message)


def uneven(analysis: Analysis, cells: Cells, chance: float = SURE) -> list[Uneven]:
    """Every cell in which a variant differs from control for sure, the most different first.

    Args:
        analysis: Which variants are compared.
        cells: The cells.
        chance: That any of them is called different although it is not.
    """
    experiment = analysis.experiment
    several = max(1, len(cells) * len(experiment.treatments))
    pairs = (
        (cell, variant, difference(sums[experiment.control], sums[variant], several, chance))
        for cell, sums in cells.items()
        for variant in compared(analysis)
        if experiment.control in sums and variant in sums
    )
    differ = [Uneven(c, v, one) for c, v, one in pairs if one is not None and one.sure > 0]
    return sorted(differ, key=lambda one: -one.difference.sure)


def by_segment(analysis: Analysis, audit: str) -> list[Uneven]:
    """The same of every cell of each segment, named such as `device = 'phone'`."""
    return [
        one._replace(cell=f"{name} = {one.cell!r}")
        for name in analysis.experiment.segments
        for one in uneven(analysis, cells_of(analysis.aggregates, f"{audit}:{name}"))
    ]


def most(differing: Iterable[Uneven]) -> float:
    """The largest sure difference, 0 without one."""
    return max((one.difference.sure for one in differing), default=0.0)


def shares(cells: Cells, cell: str) -> dict[str, float]:
    """Variant → its share in a cell."""
    of_cell = cells.get(cell, {})
    return {variant: sums.y / sums.x for variant, sums in of_cell.items() if sums.x}


def whole_shares(cells: Cells) -> dict[str, float]:
    """Variant → its share over all cells."""
    y, x = Counter[str](), Counter[str]()
    for of_cell in cells.values():
        y.update({variant: sums.y for variant, sums in of_cell.items()})
        x.update({variant: sums.x for variant, sums in of_cell.items()})
    return {variant: y[variant] / x[variant] for variant in x if x[variant]}


def described(experiment: Experiment, differing: Sequence[Uneven]) -> str:
    """Cells with the shares of both variants, such as `score (control 0.1 %, new 30.2 %)`."""
    listed = [
        f"{one.cell} ({experiment.control} {percent(one.difference.control)}, "
        f"{one.variant} {percent(one.difference.treatment)})"
        for one in differing[:SHOWN]
    ]
    more = len(differing) - SHOWN
    return listing(listed) + (f" and {more} more" if more > 0 else "")


def percent(value: float) -> str:
    """A share in percent, with a digit more where it is small."""
    return f"{value:.2%}" if value < 0.0995 else f"{value:.1%}"


def listing(items: Sequence[str]) -> str:
    """Items as words, empty for none."""
    return fmt.listing(items) if items else ""
