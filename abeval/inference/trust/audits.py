"""Compare shares of rows between variants: nulls, holes in lists, repeats, clicks.

A share must differ for sure: its value is the near end of an interval for the difference, whose
chance of an error is 1e-6 over all cells of the check. So these checks need no part of the budget
of false alarms.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from abeval.aggregates.aggregates import Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.comparison import MIN_UNITS
from abeval.inference.trust.finding import Finding, Row, of_difference, skipped, touched
from abeval.results import format as fmt
from abeval.stats.faults import SURE, Sums, difference

Cells = Mapping[str, Mapping[str, Sums]]
"""Cell → variant → sums."""

SHOWN = 3
"""So many cells are listed in a message."""

_NEARLY_ALL = 0.95
"""Variants that lack so much of their clicks are named."""

_NATURAL_HOLES = 0.02
"""From here on lists lack positions by design, such as those that nobody scrolled to."""

_FIXED = frozenset({"request_id", "item_id", "position", "score"})
"""Columns that no treatment leaves empty: other items, or other clicks, may lack the others."""


class Uneven(NamedTuple):
    """A share that differs between control and another variant, at least by `sure`."""

    cell: str
    variant: str
    control: float
    treatment: float
    sure: float

    @property
    def worse(self) -> float:
        """Return the larger share."""
        return max(self.control, self.treatment)

    @property
    def lacking(self) -> float:
        """Return how much the smaller share lacks, as a part of the larger one."""
        return 1 - min(self.control, self.treatment) / self.worse


def cells_of(aggregates: Aggregates, audit: str, segment: str = "") -> Cells:
    """Return the sums of an audit, by segment if one is named; empty if these logs lack it."""
    cells: dict[str, dict[str, Sums]] = {}
    for one in aggregates.audits.get(f"{audit}:{segment}" if segment else audit, ()):
        sums = Sums(one.clusters, one.y, one.x, one.y_y, one.y_x, one.x_x)
        cells.setdefault(one.cell, {})[one.variant] = sums
    return cells


def compared(analysis: Analysis) -> list[str]:
    """Return the variants that are compared with control: none where control has too few units."""
    experiment, units_of = analysis.experiment, analysis.aggregates.units_of
    names = experiment.treatments if units_of(experiment.control) >= MIN_UNITS else []
    return [variant for variant in names if units_of(variant) >= MIN_UNITS]


def without_few(analysis: Analysis, finding: Finding) -> Finding:
    """Name the variants with too few units, or skip a check that has none to compare."""
    counts = {v: analysis.aggregates.units_of(v) for v in analysis.experiment.variants}
    few = [f"{variant} has {n:,} units" for variant, n in counts.items() if n < MIN_UNITS]
    if not few or finding.value is None:
        return finding
    units = fmt.listing(few)
    if not compared(analysis):
        return skipped(f"{units}, and a comparison needs {MIN_UNITS}", finding.name)
    also = f"; {units} of the {MIN_UNITS} that a comparison needs"
    calm, alarm = finding.calm, finding.alarm or finding.calm
    return finding._replace(calm=calm + also, alarm=alarm + also)


def uneven(analysis: Analysis, cells: Cells, chance: float = SURE) -> list[Uneven]:
    """Return every cell in which a variant differs from control for sure, the most different first.

    `chance` is that any of them is called different although it is not.
    """
    control = analysis.experiment.control
    several = max(1, len(cells) * len(analysis.experiment.treatments))
    differ = [
        Uneven(cell, variant, *found)
        for cell, sums in cells.items()
        for variant in compared(analysis)
        if control in sums and variant in sums
        if (found := difference(sums[control], sums[variant], several, chance)) and found.sure > 0
    ]
    return sorted(differ, key=lambda one: -one.sure)


def by_segment(analysis: Analysis, audit: str) -> list[Uneven]:
    """Return the same of every cell of each segment, named such as `device = 'phone'`."""
    return [
        one._replace(cell=f"{name} = {one.cell!r}")
        for name in analysis.experiment.segments
        for one in uneven(analysis, cells_of(analysis.aggregates, audit, name))
    ]


def most(differing: Iterable[Uneven]) -> float:
    """Return the largest sure difference, 0 without one."""
    return max((one.sure for one in differing), default=0.0)


def shares(cells: Cells, cell: str = "") -> dict[str, float]:
    """Return the share of each variant in a cell."""
    of_cell = cells.get(cell, {})
    return {variant: sums.y / sums.x for variant, sums in of_cell.items() if sums.x}


def _whole_shares(cells: Cells) -> dict[str, float]:
    """Return the share of each variant over all cells."""
    variants = dict.fromkeys(variant for of_cell in cells.values() for variant in of_cell)
    whole = {v: [own[v] for own in cells.values() if v in own] for v in variants}
    sums = {v: (sum(one.y for one in own), sum(one.x for one in own)) for v, own in whole.items()}
    return {variant: y / x for variant, (y, x) in sums.items() if x}


def described(experiment: Experiment, differing: Sequence[Uneven]) -> str:
    """Return cells with both shares, such as `score (control 0.1 %, new 30.2 %)`."""
    listed = [
        f"{one.cell} ({experiment.control} {percent(one.control)}, "
        f"{one.variant} {percent(one.treatment)})"
        for one in differing[:SHOWN]
    ]
    more = len(differing) - SHOWN
    return fmt.listing(listed) + (f" and {more} more" if more > 0 else "")


def percent(value: float) -> str:
    """Return a share in percent, with a digit more where it is small."""
    return f"{value:.2%}" if value < 0.0995 else f"{value:.1%}"


def _percents(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{variant} {percent(share)}" for variant, share in shares.items())


class Shares(NamedTuple):
    """Shares of an audit that are alike in all variants, unless there is a fault.

    Attributes:
        row: The check, in whose words and limits they are judged.
        cells: Cells of the audit → what they are, in words; all cells by their name without any.
        segments: Whether shares are also compared in each cell of a segment.
        tells: Whether the share of every variant is told in any case.
        level: Whether it warns as well where rows of one variant are too many (`rows_warn`).
        beside: An audit that is told as well where shares differ, and what its values are.
    """

    row: Row
    audit: str
    cells: Mapping[str, str] = {}
    segments: bool = False
    tells: bool = False
    level: bool = False
    beside: tuple[str, str] = ("", "")

    def find(self, analysis: Analysis) -> list[Finding] | None:
        """Compare the shares, where these logs have what is counted."""
        options, counted = analysis.experiment.trust, cells_of(analysis.aggregates, self.audit)
        # Nothing is counted as well where no row is repeated, or lost.
        looked_for = self.audit == "duplicate" and "duplicates" in analysis.aggregates.facts
        if not (counted or looked_for or self.audit == "set_aside"):
            return None if self.row.absent else []
        names = self.cells or {cell: cell for cell in counted}
        cells = {cell: counted[cell] for cell in names if cell in counted}
        differing = [one._replace(cell=names[one.cell]) for one in uneven(analysis, cells)]
        if self.segments:
            differing += by_segment(analysis, self.audit)
            differing.sort(key=lambda one: -one.sure)
        value, told = most(differing), _whole_shares(cells) if self.tells else {}
        high = max(told.values(), default=0.0)
        if told:
            within = "; compared within the stretches of one split" if len(cells) > 1 else ""
            shown = f"{_percents(told)}{within}"
        else:
            limit, _ = of_difference(options, self.row.difference)
            least = value / 2 if self.segments else limit.warn or 0.0
            shown = described(analysis.experiment, [x for x in differing if x.sure >= least])
        slots = {"shares": shown, "beside": self._also(analysis)}
        # What is told in any case has no other words where it passes.
        calm = self.row.alarm.format(**slots) if high or not self.row.calm else ""
        warns = self.level and high >= options.rows_warn
        return [Finding(value, calm, slots=slots, least="warn" if warns else "pass")]

    def _also(self, analysis: Analysis) -> str:
        audit, what = self.beside
        beside = shares(cells_of(analysis.aggregates, audit))
        listed = ", ".join(f"{variant} {mean:.2f}" for variant, mean in beside.items())
        return f"; {what}: {listed}" if beside else ""


def list_holes(analysis: Analysis) -> Finding | None:
    """Compare how many positions lists lack between the first and the last that they have."""
    aggregates = analysis.aggregates
    whole = cells_of(aggregates, "holes")
    if not whole:
        return None
    by_place = uneven(analysis, cells_of(aggregates, "holes_at"))
    of_segments = by_segment(analysis, "holes")
    everywhere = shares(whole)
    lengths = shares(cells_of(aggregates, "list_length")).items()
    where = _where(by_place)
    if of_segments:
        plain = [one for one in of_segments if one.sure > of_segments[0].sure / 2]
        where += f"; most in {described(analysis.experiment, plain)}"
    natural = min(everywhere.values(), default=0.0) >= _NATURAL_HOLES
    return Finding(
        most([*uneven(analysis, whole), *by_place, *of_segments]),
        worst="warn" if natural else "fail",
        slots={
            "shares": _percents(everywhere),
            "lengths": ", ".join(f"{name} {n:.1f}" for name, n in lengths),
            "where": where,
        },
    )


def _where(by_place: Sequence[Uneven]) -> str:
    """Return the positions of most holes, if they are few."""
    if not by_place:
        return ""
    top = by_place[0].worse
    places = sorted({int(one.cell) for one in by_place if one.worse > top / 2})
    if len(places) > 10:
        return ""
    what = "position" if len(places) == 1 else "positions"
    return f"; most at {what} {fmt.listing([*map(str, places)])} (up to {percent(top)})"


def nulls(analysis: Analysis) -> Finding | None:
    """Compare how many values each column lacks."""
    cells = cells_of(analysis.aggregates, "null")
    if not cells:
        return None
    differing = uneven(analysis, cells)
    fixed = [one for one in differing if one.cell in _FIXED]
    warn = analysis.experiment.trust.difference_warn
    bad = fixed if most(fixed) >= warn else differing
    return Finding(
        most(bad),
        metrics=touched(analysis.metrics, {one.cell.lower() for one in bad}) if bad else None,
        # Where only columns of items differ, the treatment may show other items.
        worst="warn" if bad and not fixed else "fail",
        slots={"columns": len(cells), "shares": described(analysis.experiment, bad)},
    )


def missing_clicks(analysis: Analysis) -> Finding | list[Finding]:
    """Find clicks that one variant all but lacks, in all or in one cell of a segment."""
    whole = cells_of(analysis.aggregates, "clicked")
    if not whole:
        return []
    every = [one._replace(cell="all rows") for one in uneven(analysis, whole)]
    lacking = [one for one in (*every, *by_segment(analysis, "clicked")) if one.worse > 0]
    lacking.sort(key=lambda one: -one.lacking)
    shown = [one for one in lacking if one.lacking >= _NEARLY_ALL]
    return Finding(
        max((one.lacking for one in lacking), default=0.0),
        slots={"shares": described(analysis.experiment, shown)},
    )


_SERVED = {"timeout": "a timeout", "fallback": "a fallback", "stale": "a stale model"}


def served(analysis: Analysis) -> list[Finding]:
    """Tell timeouts, fallbacks and stale models of each variant, where the log has them."""
    experiment = analysis.experiment
    cells = cells_of(analysis.aggregates, "served")
    if not cells:
        why = "no column says which impressions had a timeout, a fallback or a stale model"
        is_served = any(variant.model for variant in experiment.variants.values())
        remedy = f"map {', '.join(_SERVED)} in [logs.impressions] columns, if the log has any"
        return [skipped(why, remedy=remedy * is_served)]
    found = []
    for cell, sums in cells.items():
        shown = shares(cells, cell)
        differs = most(uneven(analysis, {cell: sums})) >= experiment.trust.difference_fail
        found.append(
            Finding(
                max(shown.values()),
                least="warn" if differs else "pass",
                name=f"served:{cell}",
                slots={"what": _SERVED[cell], "shares": _percents(shown)},
            )
        )
    return found
