"""Compare shares of rows between variants: nulls, list holes, repeats, bots.

All checks have one form. Each unit has a share of its rows that is counted (for a bot, all of
them). If the means of these shares surely differ, with a chance of an error of 1e-6 over all cells
of the check, its value is the difference of the shares of all rows. Heavy units do not matter,
because each unit counts once. These checks need no part of the budget of false alarms.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from abeval.aggregates.aggregates import Aggregates, AuditSums, UnitShares
from abeval.experiment.model import Experiment
from abeval.inference.compare import Analysis
from abeval.inference.comparison import MIN_UNITS
from abeval.inference.trust.finding import Finding, Row, of_difference, skipped, touched
from abeval.results import format as fmt
from abeval.stats.faults import SURE, difference, differs

Audited = TypeVar("Audited", AuditSums, UnitShares)

Cells = Mapping[str, Mapping[str, Audited]]
"""Cell → variant → what an audit counts there."""

SHOWN = 3
"""Cells that a message lists at most."""


class Uneven(NamedTuple):
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


def by_cell(rows: Iterable[Audited]) -> dict[str, dict[str, Audited]]:
    """Index the rows of an audit by cell and variant."""
    cells: dict[str, dict[str, Audited]] = {}
    for row in rows:
        cells.setdefault(row.cell, {})[row.variant] = row
    return cells


def compared(analysis: Analysis) -> list[str]:
    """List the variants that can be compared with control."""
    experiment, units_of = analysis.experiment, analysis.aggregates.units_of
    names = experiment.treatments if units_of(experiment.control) >= MIN_UNITS else []
    return [variant for variant in names if units_of(variant) >= MIN_UNITS]


def without_few(analysis: Analysis, finding: Finding) -> Finding:
    """Name variants with too few units, or skip a check without any pair."""
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


def uneven(analysis: Analysis, cells: Cells[Audited], chance: float = SURE) -> list[Uneven]:
    """Find the cells whose shares surely differ from control, largest first.

    `chance` is the probability that any cell is wrongly called different.
    """
    control = analysis.experiment.control
    # The chance of an error is divided among all comparisons.
    several = max(1, len(cells) * len(analysis.experiment.treatments))
    differ = [
        Uneven(cell, variant, rows[control].share, rows[variant].share, sure)
        for cell, rows in cells.items()
        for variant in compared(analysis)
        if control in rows and variant in rows
        if (sure := _apart(rows[control], rows[variant], several, chance)) is not None
    ]
    return sorted(differ, key=lambda one: -one.sure)


def _apart(control: Audited, treatment: Audited, cells: int, chance: float) -> float | None:
    """Return the difference that is sure; None if it may be chance."""
    if isinstance(control, AuditSums) and isinstance(treatment, AuditSums):
        found = difference(control.own, treatment.own, cells, chance)
        return found.sure if found and found.sure > 0 else None
    is_sure = differs(control.own, treatment.own, cells, chance)
    return abs(treatment.share - control.share) if is_sure else None


def counted(aggregates: Aggregates, audit: str) -> dict[str, dict[str, UnitShares]]:
    """Return the counts of an audit by cell; empty if the logs lack it."""
    return by_cell(aggregates.shares.get(audit, ()))


def by_segment(aggregates: Aggregates, audit: str) -> dict[str, Mapping[str, UnitShares]]:
    """Return the counts of an audit by cell of each segment."""
    segments = (name for name in aggregates.shares if name.startswith(f"{audit}:"))
    return {
        f"{name.partition(':')[2]} = {cell!r}": sums
        for name in segments
        for cell, sums in counted(aggregates, name).items()
    }


def most(differing: Iterable[Uneven]) -> float:
    """Return the largest sure difference, 0 without one."""
    return max((one.sure for one in differing), default=0.0)


def shares(cells: Cells[UnitShares]) -> dict[str, float]:
    """Return each variant's share over all cells."""
    sums: dict[str, list[UnitShares]] = {}
    for variant, one in ((variant, one) for own in cells.values() for variant, one in own.items()):
        sums.setdefault(variant, []).append(one)
    wholes = {v: (sum(one.y for one in own), sum(one.x for one in own)) for v, own in sums.items()}
    return {variant: y / x for variant, (y, x) in wholes.items() if x}


def described(experiment: Experiment, differing: Sequence[Uneven]) -> str:
    """Describe cells with both shares, as in `score (control 0.1 %, new 30.2 %)`."""
    listed = [
        f"{one.cell} ({experiment.control} {percent(one.control)}, "
        f"{one.variant} {percent(one.treatment)})"
        for one in differing[:SHOWN]
    ]
    more = len(differing) - SHOWN
    return fmt.listing(listed) + (f" and {more} more" if more > 0 else "")


def percent(value: float) -> str:
    """Write a share in percent, with one more digit if it is small."""
    return f"{value:.2%}" if value < 0.0995 else f"{value:.1%}"


def _percents(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{variant} {percent(share)}" for variant, share in shares.items())


class Shares(NamedTuple):
    """A check of shares that should be equal in all variants.

    Attributes:
        row: The check, with its messages and limits.
        cells: Cells of the audit → their description; empty for all cells, by name.
        segments: Whether shares are also compared within each cell of a segment.
        tells: Whether the message always gives every variant's share.
        level: Share of a variant from which the check warns, if `tells`.
        natural: If every variant has at least this share, it is by design: never fail.
        others: Cells that are not compared.
        columns: Whether cells are columns, so that metrics that read them are affected.
        lacks: Whether the value is the share that the smaller one lacks of the larger.
    """

    row: Row
    audit: str
    cells: Mapping[str, str] = {}
    segments: bool = False
    tells: bool = False
    level: float | str = 2.0
    natural: float = 1.0
    others: Sequence[str] = ()
    columns: bool = False
    lacks: bool = False

    def find(self, analysis: Analysis) -> list[Finding] | None:
        """Compare the shares, if the logs have what is counted."""
        options, aggregates = analysis.experiment.trust, analysis.aggregates
        whole = counted(aggregates, self.audit)
        # Nothing is counted as well where no row is repeated, or lost.
        looked_for = self.audit == "duplicate" and "duplicates" in aggregates.facts
        if not (whole or looked_for or self.audit == "set_aside"):
            return None if self.row.absent else []
        names = self.cells or {cell: cell for cell in whole if cell not in self.others}
        cells = {names[cell]: own for cell, own in whole.items() if cell in names}
        told = shares(cells)
        parts = by_segment(aggregates, self.audit) if self.segments else {}
        differing = uneven(analysis, {**cells, **parts})
        if self.lacks:
            lacking = [one._replace(sure=one.lacking) for one in differing]
            differing = sorted(lacking, key=lambda one: -one.sure)
        value, high = most(differing), max(told.values(), default=0.0) if self.tells else 0.0
        if self.tells and told:
            shown = _percents(told)
        else:
            limit, _ = of_difference(options, self.row.difference)
            least = value * (0.9 if self.lacks else 0.5) if self.segments else limit.warn or 0.0
            shown = described(analysis.experiment, [x for x in differing if x.sure >= least])
        slots = {"shares": shown, "cells": fmt.listing([*cells])}
        # What is told in any case has no other words where it passes.
        calm = self.row.alarm.format(**slots) if high or not self.row.calm else ""
        found = Finding(value, calm, slots=slots)
        level = getattr(options, self.level) if isinstance(self.level, str) else self.level
        if high >= level:
            found = found._replace(least="warn")
        if min(told.values(), default=0.0) >= self.natural:
            found = found._replace(worst="warn")
        if self.columns and differing:
            found = found._replace(metrics=_reading(analysis, differing))
        return [found]


def _reading(analysis: Analysis, columns: Sequence[Uneven]) -> tuple[str, ...] | None:
    """Return the metrics that read the columns of these cells."""
    experiment, names = analysis.experiment, {one.cell.lower() for one in columns}
    own = {"unit_id": experiment.unit, **experiment.logs.rows.columns}
    canonical = {name for name, text in own.items() if text.lower() in names}
    return touched(analysis.metrics, names | canonical)


_SERVED = {"timeout": "a timeout", "fallback": "a fallback", "stale": "a stale model"}


def served(analysis: Analysis) -> list[Finding]:
    """Report timeouts, fallbacks and stale models of each variant."""
    experiment = analysis.experiment
    cells = counted(analysis.aggregates, "served")
    if not cells:
        why = "no column says which impressions had a timeout, a fallback or a stale model"
        is_served = any(variant.model for variant in experiment.variants.values())
        remedy = f"map {', '.join(_SERVED)} in [logs.impressions] columns, if the log has any"
        return [skipped(why, remedy=remedy * is_served)]
    found = []
    for cell, sums in cells.items():
        shown = shares({cell: sums})
        is_uneven = most(uneven(analysis, {cell: sums})) >= experiment.trust.difference_fail
        found.append(
            Finding(
                max(shown.values()),
                least="warn" if is_uneven else "pass",
                name=f"served:{cell}",
                slots={"what": _SERVED[cell], "shares": _percents(shown)},
            )
        )
    return found
