"""A result as one HTML file that works offline and runs only its own two scripts.

The `Result` of an analysis comes from `write_report` (`report/__init__.py`); page.html and the
views of `scorecard.py` and `slices.py` are its parts.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from markupsafe import Markup

from abeval.report import assets, templates
from abeval.report.cuts import cut_views, split_tables
from abeval.report.daily_figures import daily_effect
from abeval.report.effects import anchors, definitions
from abeval.report.figures import island
from abeval.report.scorecard import role_views
from abeval.report.short import Brief, notes, parts
from abeval.report.slices import SliceView, daily_views, segment_views
from abeval.report.tables import segment_tables, tables
from abeval.results import Check, MetricInfo, Row
from abeval.results import format as fmt
from abeval.results.analysis import Result

_SEVERITY = ("fail", "warn", "pass", "skipped")


@dataclass(frozen=True)
class DayView:
    """A metric's days as text, and their figure as JSON."""

    view: SliceView
    island: Markup


def page_html(result: Result) -> str:
    """The whole report."""
    daily = tuple(_day(result, view) for view in daily_views(result))
    segments, cuts = segment_views(result), cut_views(result)
    return templates.render_page(
        "page.html",
        draws=bool(daily),
        **_shared(result),
        tables=tables(result),
        segment_tables=segment_tables(result),
        daily=daily,
        segments=segments,
        cuts=cuts,
        split_tables=split_tables(result),
        sections=_sections(bool(daily), bool(segments), bool(cuts)),
        open_checks=_by_severity(check for check in result.trust if check.status != "pass"),
        passed=[check for check in result.trust if check.status == "pass"],
        tally=_tally(result.trust),
        units=sum(variant.units for variant in result.experiment.variants),
        weight=sum(variant.weight for variant in result.experiment.variants),
        days=len({row.cell for row in result.daily}),
        margins=any(metric.margin is not None for metric in result.metrics),
        anchors=anchors(result.metrics),
        methods={metric.name: _methods(result, metric) for metric in result.metrics},
        fields=[field.name for field in fields(Row)],
        download=re.sub(r"[^A-Za-z0-9_-]+", "-", result.experiment.name) or "experiment",
        csv=assets.data_url("text/csv", result.to_csv()),
        json=assets.packed_url(result.to_compact_json()),
    )


def summary(result: Result) -> str:
    """The verdict and the scorecard for a notebook's output cell."""
    style = assets.text("tokens.css") + assets.text("summary.css")
    return templates.render("summary.html", **_shared(result), style=Markup(style))  # noqa: S704 (our own file)


def brief(result: Brief) -> str:
    """The short tables of a result for a notebook's output cell."""
    style = assets.text("tokens.css") + assets.text("summary.css")
    shown = (*parts(result), *notes(result))
    return templates.render("brief.html", parts=shown, style=Markup(style))  # noqa: S704 (our own file)


def _shared(result: Result) -> dict[str, object]:
    """Values for the templates of both the page and the summary."""
    return {
        "result": result,
        "roles": role_views(result),
        "several": len({row.variant for row in result.scorecard}) > 1,
        "level": fmt.level(result.experiment.alpha),
    }


def _day(result: Result, view: SliceView) -> DayView:
    rows = [row for row in result.daily if row.metric == view.metric]
    overall = [row for row in result.scorecard if row.metric == view.metric]
    metric = definitions(result, rows)[view.metric]
    return DayView(view, island(daily_effect(metric, rows, overall)))


def _sections(daily: bool, segments: bool, cuts: bool) -> tuple[tuple[str, str], ...]:
    return (
        ("verdict", "Verdict"),
        ("trust", "Trust"),
        ("scorecard", "Scorecard"),
        *((("daily", "By day"),) if daily else ()),
        *((("segments", "Segments"),) if segments else ()),
        *((("cuts", "Cuts"),) if cuts else ()),
        ("accounting", "Rows"),
        ("methods", "Methods"),
    )


def _by_severity(checks: Iterable[Check]) -> list[Check]:
    return sorted(checks, key=lambda check: _SEVERITY.index(check.status))


def _tally(checks: Sequence[Check]) -> tuple[tuple[str, int], ...]:
    counts = ((s, sum(check.status == s for check in checks)) for s in _SEVERITY)
    return tuple((status, number) for status, number in counts if number)


def _methods(result: Result, metric: MetricInfo) -> tuple[str, ...]:
    rows = [row for row in result.scorecard if row.metric == metric.name]
    return tuple(dict.fromkeys(row.method for row in rows if row.method))
