"""Check shares that should be equal in all variants: nulls, list holes, repeats.

All these checks have one form, that of `Shares`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from abeval.inference.compare import Analysis
from abeval.inference.trust.audits import (
    UnevenShare,
    describe_shares,
    find_largest_sure_difference,
    find_uneven_shares,
    format_variant_shares,
    pool_variant_shares,
    read_audit,
    read_audit_segments,
)
from abeval.inference.trust.finding import (
    CLICK_COLUMNS,
    RawCheck,
    TrustCheck,
    affected_metrics,
    choose_difference_limits,
    skip_check,
)
from abeval.results import format as fmt


@dataclass(frozen=True)
class Shares(TrustCheck):
    """A check of shares that should be equal in all variants.

    Attributes:
        counts: The audit that counts the rows.
        cells: Cells of the audit → their description; empty for all cells, by name.
        others: Cells that are not compared.
        segments: Whether shares are also compared within each cell of a segment.
        tells: Whether the message always gives every variant's share.
        level: Share of a variant from which the check warns, if `tells`.
        natural: If every variant has at least this share, it is by design: never fail.
        names_columns: Whether cells are columns, so that metrics that read them are affected.
        lacks: Whether the value is the share that the smaller one lacks of the larger.
    """

    audit: bool = True
    pairs: bool = True
    counts: str = ""
    cells: Mapping[str, str] = field(default_factory=dict)
    others: Sequence[str] = ()
    segments: bool = False
    tells: bool = False
    level: float | str = 2.0
    natural: float = 1.0
    names_columns: bool = False
    lacks: bool = False

    def run(self, analysis: Analysis) -> list[RawCheck] | None:
        """Compare the shares, if the logs have what is counted."""
        options, aggregates = analysis.experiment.trust, analysis.aggregates
        counts = read_audit(aggregates, self.counts)
        # Nothing is counted as well where no row is repeated, or lost.
        looked_for = self.counts == "duplicate" and "duplicates" in aggregates.facts
        if not (counts or looked_for or self.counts == "set_aside"):
            return None if self.absent else []
        names = self.cells or {cell: cell for cell in counts if cell not in self.others}
        cells = {names[cell]: by_variant for cell, by_variant in counts.items() if cell in names}
        segment_cells = read_audit_segments(aggregates, self.counts) if self.segments else {}
        differing = find_uneven_shares(analysis, {**cells, **segment_cells})
        if self.lacks:
            lacking = [share._replace(sure=share.lacking) for share in differing]
            differing = sorted(lacking, key=lambda share: -share.sure)
        value, variant_shares = find_largest_sure_difference(differing), pool_variant_shares(cells)
        if self.tells:
            text = format_variant_shares(variant_shares)
        else:
            limit, _ = choose_difference_limits(options, self.difference)
            least = value * (0.9 if self.lacks else 0.5) if self.segments else limit.warn or 0.0
            text = describe_shares(analysis.experiment, [x for x in differing if x.sure >= least])
        slots = {"shares": text, "cells": fmt.join_items([*cells])}
        high = max(variant_shares.values(), default=0.0) if self.tells else 0.0
        level = getattr(options, self.level) if isinstance(self.level, str) else self.level
        is_natural = min(variant_shares.values(), default=0.0) >= self.natural
        is_of_columns = bool(self.names_columns and differing)
        metrics = _find_cell_metrics(analysis, differing) if is_of_columns else None
        return [
            RawCheck(
                value,
                # A share that is told has the same words where the check passes.
                calm=self.alarm.format(**slots) if high else "",
                least="warn" if high >= level else "pass",
                worst="warn" if is_natural else "fail",
                metrics=metrics,
                slots=slots,
            )
        ]


def _find_cell_metrics(
    analysis: Analysis, columns: Sequence[UnevenShare]
) -> tuple[str, ...] | None:
    """Return the metrics that read the columns of these cells."""
    experiment, names = analysis.experiment, {share.cell.lower() for share in columns}
    column_names = {"unit_id": experiment.unit, **experiment.logs.rows.columns}
    canonical = {name for name, text in column_names.items() if text.lower() in names}
    return affected_metrics(analysis.metrics, names | canonical)


@TrustCheck(
    "audits",
    of="both",
    absent=(
        "the log is not audited by variant: sums have no rows to audit, and rows without a unit "
        "do not say whose they are"
    ),
)
def audits(analysis: Analysis) -> list[RawCheck] | None:
    """Say so where the log is not audited."""
    return [] if analysis.aggregates.audits else None


# Columns that no treatment leaves empty: other items, or other clicks, may lack the others.
_NULL_COLUMNS = ("request_id", "item_id", "position", "score")

_NULLS = Shares(
    "nulls",
    of="both",
    difference="fail",
    absent="no column of the log can be null",
    calm="nulls are equally frequent in all variants",
    alarm="nulls are not equally frequent in all variants: {shares}",
    remedy=(
        "look at the service that writes this column for the variant, such as a model "
        "that timed out or another version of the event"
    ),
    counts="null",
    cells={name: name for name in _NULL_COLUMNS},
    names_columns=True,
)

BY_VARIANT = (
    Shares(
        "list_holes",
        check="lists_by_variant",
        difference="fail",
        absent="without request_id and position it is unknown whether lists are whole",
        calm="lists lack equally many positions between first and last in all variants",
        alarm="positions that lists lack between first and last: {shares}",
        remedy=(
            "look for rows lost between the service and the log, for one device or slot of the page"
        ),
        counts="holes",
        segments=True,
        # From here on lists lack positions by design, such as those that nobody scrolled to.
        natural=0.02,
        cells={"": "all lists"},
    ),
    Shares(
        "list_start",
        check="lists_by_variant",
        difference="large",
        columns=("position",),
        calm="lists begin at the same position in all variants",
        alarm="lists of one variant begin at another position: {shares}",
        remedy=(
            "where one variant counts from 0, add 1 to its positions (the file's "
            "`first_position` is of all rows); where the first position is missing, look for "
            "rows lost or filtered on their way, such as an item that is shown and not logged"
        ),
        counts="list_start",
        cells={
            "0": "lists from position 0 on",
            "2": "lists without their first position",
        },
    ),
    Shares(
        "lists_again",
        check="lists_by_variant",
        difference="large",
        calm="lists are not logged again within seconds, or as often in all variants",
        alarm=(
            "lists with the same items in the same order are logged again within ten seconds: "
            "{shares}"
        ),
        remedy=(
            "look for requests that are sent again (a retry, a timeout that is too short) and "
            "logged each time under another id: impressions and lists per unit are too many"
        ),
        counts="list_repeat",
        cells={"at once": "lists again within ten seconds, to the same unit"},
    ),
    _NULLS,
    replace(
        _NULLS,
        name="nulls_of_items",
        check="nulls",
        difference="warn",
        absent="",
        cells={},
        others=_NULL_COLUMNS,
    ),
    Shares(
        "duplicates_by_variant",
        of="both",
        difference="fail",
        calm="duplicate rows: the shares are alike in all variants",
        alarm="duplicate rows: the shares are not alike: {shares}",
        remedy="look for events sent twice by the variant's client, or loaded twice",
        counts="duplicate",
        cells={
            "": "duplicate rows",
            "clicked": "duplicate rows of clicked impressions",
        },
    ),
    Shares(
        "set_aside_by_variant",
        difference="fail",
        calm="rows set aside: the shares are alike in all variants",
        alarm="rows set aside: the shares are not alike: {shares}",
        remedy="look at how the variant's events get their unit, their time and their exposure",
        counts="set_aside",
    ),
    Shares(
        "repeated_clicks",
        check="clicks_by_variant",
        difference="large",
        columns=CLICK_COLUMNS,
        calm=(
            "as many clicks repeat another one on the same impression within ten seconds in "
            "all variants"
        ),
        alarm=(
            "clicks are logged again within ten seconds of another on the same impression, in "
            "one variant more than in the other: {shares}"
        ),
        remedy=(
            "look at the client of the variant: an event that is sent twice, a handler that "
            "is bound twice, or a retry; count a click of an impression once, in sums and in "
            "dwell"
        ),
        counts="click_again",
        cells={"": "all clicks"},
        segments=True,
    ),
    # This check, and `served`, also judge each variant's own share, of however few units.
    Shares(
        "clicks_before",
        check="clicks_by_variant",
        pairs=False,
        difference="fail",
        columns=CLICK_COLUMNS,
        absent="no log of clicks has times, so nobody knows how late a click came",
        calm="no click came before its impression",
        alarm="clicks before their impression: {shares}",
        remedy=(
            "look at the clocks of the two services, and at the join: the key may be of "
            "another list"
        ),
        counts="click_delay",
        cells={"early": ""},
        tells=True,
        level="rows_warn",
    ),
    Shares(
        "click_delay",
        check="clicks_by_variant",
        difference="warn",
        columns=CLICK_COLUMNS,
        calm=(
            "clicks come equally late after their impression in all variants, apart from what "
            "an effect does"
        ),
        alarm="clicks are odd in one variant: {shares}",
        remedy="look at clicks that are sent in batches, and at a default in place of their time",
        counts="click_delay",
        cells={
            "late": "later than the attribution window",
            "same": "in the same millisecond as the impression",
            "unknown": "without a time",
        },
    ),
    Shares(
        "repeated_lists",
        check="lists_by_variant",
        difference="warn",
        calm="lists are repeated as often in all variants",
        alarm="one variant serves the same items in the same order again and again: {shares}",
        remedy=(
            "look for a cache without the user, or the time, in its key, and for a fallback "
            "in place of the ranker: the effect is of what was served"
        ),
        counts="list_repeat",
        cells={
            "one": "one and the same list",
            "of others": "lists that another unit gets too",
            "again": "the unit's last list once more",
        },
    ),
    Shares(
        "missing_clicks",
        check="clicks_by_variant",
        limits=(0.95, 0.98),
        columns=CLICK_COLUMNS,
        calm="no variant lacks its clicks anywhere",
        alarm=(
            "one variant has next to no clicks where the other has them (share of impressions "
            "that are clicked): {shares}"
        ),
        reason=(
            "the share of clicks that is lacking, where the difference is sure (an error has "
            "the chance 1e-6): no treatment takes nearly all clicks away"
        ),
        remedy=(
            "look whether this client logs clicks at all, and whether their key is that of "
            "the impressions, such as after a release"
        ),
        counts="clicked",
        cells={"": "all rows"},
        segments=True,
        lacks=True,
    ),
)
"""What audits count by variant, in the order of how much it can spoil."""

SILENT_UNITS = Shares(
    "silent_units",
    difference="warn",
    calm="exposed units without an impression, compared within the split periods: {shares}",
    remedy="if an exposure is logged when a list is shown, look for lists that were not logged",
    counts="silent",
    tells=True,
)

LACKING_COLUMNS = Shares(
    "lacking_columns",
    audit=False,
    pairs=False,
    difference="fail",
    calm=(
        "some files lack {cells}; their shares of the impressions: {shares}; the notes "
        "name the files"
    ),
    remedy="complete the files, or leave their days out of [period]",
    counts="lacking",
    names_columns=True,
    tells=True,
    level=0.0,
)


_SERVED = {"timeout": "a timeout", "fallback": "a fallback", "stale": "a stale model"}


@TrustCheck(
    "served",
    audit=True,
    limits=("rows_warn", "rows_fail"),
    calm="impressions with {what}: {shares}",
    alarm=(
        "impressions with {what}: {shares}: the effect is of what was served, not of what was meant"
    ),
    reason="these impressions dilute the effect by about their share",
    remedy="look at the latency of the variant's model and at when it was last deployed",
)
def serving(analysis: Analysis) -> list[RawCheck]:
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
        variant_shares = pool_variant_shares({cell: sums})
        is_uneven = (
            find_largest_sure_difference(find_uneven_shares(analysis, {cell: sums}))
            >= experiment.trust.difference_fail
        )
        findings.append(
            RawCheck(
                max(variant_shares.values()),
                least="warn" if is_uneven else "pass",
                name=f"served:{cell}",
                slots={"what": _SERVED[cell], "shares": format_variant_shares(variant_shares)},
            )
        )
    return findings
