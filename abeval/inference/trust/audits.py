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
from abeval.inference.trust.finding import (
    CheckDefinition,
    RawCheck,
    affected_metrics,
    difference_limits,
    skip_check,
)
from abeval.results import format as fmt
from abeval.stats.faults import SURE, difference, differs

Audited = TypeVar("Audited", AuditSums, UnitShares)

Cells = Mapping[str, Mapping[str, Audited]]
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


def index_by_cell(rows: Iterable[Audited]) -> dict[str, dict[str, Audited]]:
    """Index the rows of an audit by cell and variant."""
    cells: dict[str, dict[str, Audited]] = {}
    for row in rows:
        cells.setdefault(row.cell, {})[row.variant] = row
    return cells


def comparable_variants(analysis: Analysis) -> list[str]:
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
    units = fmt.listing(few)
    if not comparable_variants(analysis):
        return skip_check(f"{units}, and a comparison needs {MIN_UNITS}", finding.name)
    also = f"; {units} of the {MIN_UNITS} that a comparison needs"
    calm, alarm = finding.calm, finding.alarm or finding.calm
    return finding._replace(calm=calm + also, alarm=alarm + also)


def find_uneven_shares(
    analysis: Analysis, cells: Cells[Audited], chance: float = SURE
) -> list[UnevenShare]:
    """Find the cells whose shares surely differ from control, largest first.

    `chance` is the probability that any cell is wrongly called different.
    """
    control = analysis.experiment.control
    # The chance of an error is divided among all comparisons.
    several = max(1, len(cells) * len(analysis.experiment.treatments))
    differ = [
        UnevenShare(cell, variant, rows[control].share, rows[variant].share, sure)
        for cell, rows in cells.items()
        for variant in comparable_variants(analysis)
        if control in rows and variant in rows
        if (sure := _sure_difference(rows[control], rows[variant], several, chance)) is not None
    ]
    return sorted(differ, key=lambda share: -share.sure)


def _sure_difference(
    control: Audited, treatment: Audited, cells: int, chance: float
) -> float | None:
    """Return the difference that is sure; None if it may be chance."""
    if isinstance(control, AuditSums) and isinstance(treatment, AuditSums):
        result = difference(control.sums, treatment.sums, cells, chance)
        return result.sure if result and result.sure > 0 else None
    is_sure = differs(control.sums, treatment.sums, cells, chance)
    return abs(treatment.share - control.share) if is_sure else None


def read_audit(aggregates: Aggregates, audit: str) -> dict[str, dict[str, UnitShares]]:
    """Return the counts of an audit by cell; empty if the logs lack it."""
    return index_by_cell(aggregates.shares.get(audit, ()))


def read_audit_segments(aggregates: Aggregates, audit: str) -> dict[str, Mapping[str, UnitShares]]:
    """Return the counts of an audit by cell of each segment."""
    segments = (name for name in aggregates.shares if name.startswith(f"{audit}:"))
    return {
        f"{name.partition(':')[2]} = {cell!r}": sums
        for name in segments
        for cell, sums in read_audit(aggregates, name).items()
    }


def max_sure_difference(differing: Iterable[UnevenShare]) -> float:
    """Return the largest sure difference, 0 without one."""
    return max((share.sure for share in differing), default=0.0)


def shares(cells: Cells[UnitShares]) -> dict[str, float]:
    """Return each variant's share over all cells."""
    sums: dict[str, list[UnitShares]] = {}
    for variant, row in (
        (variant, row) for cell in cells.values() for variant, row in cell.items()
    ):
        sums.setdefault(variant, []).append(row)
    wholes = {
        v: (sum(row.y for row in rows), sum(row.x for row in rows)) for v, rows in sums.items()
    }
    return {variant: y / x for variant, (y, x) in wholes.items() if x}


def describe_shares(experiment: Experiment, differing: Sequence[UnevenShare]) -> str:
    """Describe cells with both shares, as in `score (control 0.1 %, new 30.2 %)`."""
    texts = [
        f"{share.cell} ({experiment.control} {percent(share.control)}, "
        f"{share.variant} {percent(share.treatment)})"
        for share in differing[:SHOWN]
    ]
    more = len(differing) - SHOWN
    return fmt.listing(texts) + (f" and {more} more" if more > 0 else "")


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

    row: CheckDefinition
    audit: str
    cells: Mapping[str, str] = {}
    segments: bool = False
    tells: bool = False
    level: float | str = 2.0
    natural: float = 1.0
    others: Sequence[str] = ()
    columns: bool = False
    lacks: bool = False

    def find(self, analysis: Analysis) -> list[RawCheck] | None:
        """Compare the shares, if the logs have what is counted."""
        options, aggregates = analysis.experiment.trust, analysis.aggregates
        counts = read_audit(aggregates, self.audit)
        # Nothing is counted as well where no row is repeated, or lost.
        looked_for = self.audit == "duplicate" and "duplicates" in aggregates.facts
        if not (counts or looked_for or self.audit == "set_aside"):
            return None if self.row.absent else []
        names = self.cells or {cell: cell for cell in counts if cell not in self.others}
        cells = {names[cell]: by_variant for cell, by_variant in counts.items() if cell in names}
        variant_shares = shares(cells)
        segment_cells = read_audit_segments(aggregates, self.audit) if self.segments else {}
        differing = find_uneven_shares(analysis, {**cells, **segment_cells})
        if self.lacks:
            lacking = [share._replace(sure=share.lacking) for share in differing]
            differing = sorted(lacking, key=lambda share: -share.sure)
        value, high = (
            max_sure_difference(differing),
            max(variant_shares.values(), default=0.0) if self.tells else 0.0,
        )
        if self.tells and variant_shares:
            text = _percents(variant_shares)
        else:
            limit, _ = difference_limits(options, self.row.difference)
            least = value * (0.9 if self.lacks else 0.5) if self.segments else limit.warn or 0.0
            text = describe_shares(analysis.experiment, [x for x in differing if x.sure >= least])
        slots = {"shares": text, "cells": fmt.listing([*cells])}
        # What is told in any case has no other words where it passes.
        calm = self.row.alarm.format(**slots) if high or not self.row.calm else ""
        finding = RawCheck(value, calm, slots=slots)
        level = getattr(options, self.level) if isinstance(self.level, str) else self.level
        if high >= level:
            finding = finding._replace(least="warn")
        if min(variant_shares.values(), default=0.0) >= self.natural:
            finding = finding._replace(worst="warn")
        if self.columns and differing:
            finding = finding._replace(metrics=_affected_metrics(analysis, differing))
        return [finding]


def _affected_metrics(analysis: Analysis, columns: Sequence[UnevenShare]) -> tuple[str, ...] | None:
    """Return the metrics that read the columns of these cells."""
    experiment, names = analysis.experiment, {share.cell.lower() for share in columns}
    column_names = {"unit_id": experiment.unit, **experiment.logs.rows.columns}
    canonical = {name for name, text in column_names.items() if text.lower() in names}
    return affected_metrics(analysis.metrics, names | canonical)


_SERVED = {"timeout": "a timeout", "fallback": "a fallback", "stale": "a stale model"}


def check_serving(analysis: Analysis) -> list[RawCheck]:
    """Report timeouts, fallbacks and stale models of each variant."""
    experiment = analysis.experiment
    cells = read_audit(analysis.aggregates, "served")
    if not cells:
        why = "no column says which impressions had a timeout, a fallback or a stale model"
        is_served = any(variant.model for variant in experiment.variants.values())
        remedy = f"map {', '.join(_SERVED)} in [logs.impressions] columns, if the log has any"
        return [skip_check(why, remedy=remedy * is_served)]
    findings = []
    for cell, sums in cells.items():
        variant_shares = shares({cell: sums})
        is_uneven = (
            max_sure_difference(find_uneven_shares(analysis, {cell: sums}))
            >= experiment.trust.difference_fail
        )
        findings.append(
            RawCheck(
                max(variant_shares.values()),
                least="warn" if is_uneven else "pass",
                name=f"served:{cell}",
                slots={"what": _SERVED[cell], "shares": _percents(variant_shares)},
            )
        )
    return findings
