"""Offline beside online as one HTML file that works offline.

The `Agreement` comes from `write_report` (`report/__init__.py`); tables are those of
`agreement_short.py`, figures from `agreement_figures.py`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from abeval.report import agreement_figures as figures
from abeval.report import assets, templates
from abeval.report.agreement_short import number, sentences, tables
from abeval.report.figures import FigureView
from abeval.results import format as fmt
from abeval.results.agreement import Agreement, Cause, Evidence
from abeval.results.record import csv_text

_TONES = {"found": "fail", "not found": "pass", "cannot be checked": "skipped"}


@dataclass(frozen=True)
class CauseView:
    """A cause as the page shows it."""

    cause: Cause
    tone: str
    share: str
    evidence: tuple[tuple[str, str, str], ...]


def agreement_page_html(result: Agreement) -> str:
    """The whole page."""
    quadrants, positions = tuple(_quadrants(result)), tuple(_positions(result))
    return templates.render_page(
        "agreement.html",
        draws=bool(quadrants or positions),
        result=result,
        sentences=sentences(result),
        tables=tables(result, whole=True),
        quadrants=quadrants,
        positions=positions,
        causes=tuple(_cause(cause) for cause in result.causes),
        several=len({cause.variant for cause in result.causes}) > 1,
        level=fmt.level(result.alpha),
        download=re.sub(r"[^A-Za-z0-9_-]+", "-", result.name) or "agreement",
        json=assets.packed_url(result.to_compact_json()),
        csv=assets.packed_url(csv_text(result.to_frame())),
    )


def _quadrants(result: Agreement) -> Iterator[FigureView]:
    """A figure for each variant: every offline metric against the goals."""
    for i, variant in enumerate(dict.fromkeys(row.variant for row in result.rows)):
        own = [row for row in result.rows if row.variant == variant]
        shown = [row for row in own if row.role == "goal"] or own
        conflicts = sum(row.standing == "conflict" for row in shown)
        yield FigureView(
            f"quadrant-{i}",
            f"Offline against online, {variant}",
            f"{conflicts} of {len(shown)} pairs of metrics contradict each other.",
            figures.quadrant_figure(shown),
            heads=("Offline", "Online", "Offline, half-widths", "Online, half-widths", "Standing"),
            rows=tuple(
                (
                    *(row.offline, row.online),
                    *(_half_widths(row.offline_strength), _half_widths(row.online_strength)),
                    row.standing,
                )
                for row in shown
            ),
        )


def _half_widths(strength: float | None) -> str:
    return fmt.MISSING if strength is None else f"{strength:+.2f}"


def _positions(result: Agreement) -> Iterator[FigureView]:
    if result.positions:
        rates = tuple(dict.fromkeys(result.positions))
        yield FigureView(
            "positions",
            "Click rate by position",
            "",
            figures.position_figure(rates),
            heads=("Position", "Variant", "Clicks", "Impressions", "Click rate"),
            rows=tuple(figures.position_cells(rate) for rate in rates),
        )


def _cause(cause: Cause) -> CauseView:
    share = "" if cause.accounts_for is None else fmt.percent(cause.accounts_for)
    evidence = tuple(_evidence(item) for item in cause.evidence)
    return CauseView(cause, _TONES[cause.status], share, evidence)


def _evidence(item: Evidence) -> tuple[str, str, str]:
    return item.name, item.where, number(item.value, item.low, item.high)
