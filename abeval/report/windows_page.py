"""Effects over time as one HTML file that works offline.

The `TimeResult` comes from `write_report` (`report/__init__.py`), with the A/A replays if there are
any.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from abeval.report import templates, windows_figures
from abeval.report.figures import FigureView, island
from abeval.results import format as fmt
from abeval.results.aa import AAResult
from abeval.results.windows import Look, Rhythm, Stability, TimeResult, WindowRow

_TONES = {"stable": "pass", "settling": "warn", "drifting": "fail", "too_early": "skipped"}
_AXES = {"hour": "By hour of the day", "weekday": "By weekday"}


@dataclass(frozen=True)
class MetricView:
    """All that the page shows of one metric in one variant."""

    anchor: str
    metric: str
    variant: str
    stability: Stability | None
    tone: str
    figures: tuple[FigureView, ...]
    looks: tuple[Look, ...]
    rows: tuple[WindowRow, ...]


def windows_page_html(result: TimeResult, aa: AAResult | None = None) -> str:
    """The whole page."""
    metrics = _metrics(result)
    replays = () if aa is None else _replays(aa)
    return templates.render_page(
        "windows.html",
        draws=True,
        result=result,
        metrics=metrics,
        aa=aa,
        replays=replays,
        several=len({view.variant for view in metrics}) > 1,
        planned=any(look.bound is not None for look in result.looks),
        level=fmt.level(result.alpha),
    )


def _metrics(result: TimeResult) -> tuple[MetricView, ...]:
    names = dict.fromkeys((row.metric, row.variant) for row in result.windows)
    return tuple(_metric(result, f"m{i}", *name) for i, name in enumerate(names))


def _metric(result: TimeResult, anchor: str, metric: str, variant: str) -> MetricView:
    key, unit = (metric, variant), result.units.get(metric, "")
    rows = [r for r in result.windows if (r.metric, r.variant) == key]
    looks = tuple(r for r in result.looks if (r.metric, r.variant) == key)
    stability = next((r for r in result.stability if (r.metric, r.variant) == key), None)
    days = [r for r in rows if r.axis == "calendar"]
    drawn = windows_figures.windows_figure(days, looks, unit)
    figures = [FigureView(f"{anchor}-days", "", _looks_sentence(looks), island(drawn))]
    for axis, title in _AXES.items():
        parts = [r for r in rows if r.axis == axis]
        tests = [t for t in result.rhythms if (t.metric, t.variant, t.by) == (*key, axis)]
        if parts:
            drawn = windows_figures.recurring_figure(parts, unit)
            sentence = _rhythm_sentence(tests)
            figures.append(FigureView(f"{anchor}-{axis}", title, sentence, island(drawn)))
    tone = _TONES[stability.verdict] if stability else "skipped"
    shown = tuple(r for r in days if r.kind != "rolling")
    return MetricView(anchor, metric, variant, stability, tone, tuple(figures), looks, shown)


def _replays(aa: AAResult) -> tuple[FigureView, ...]:
    return tuple(
        FigureView(
            f"aa{i}",
            row.metric,
            f"Rejects {row.rejection_rate:.2%} of {row.runs:,} replays in which nothing differs.",
            island(windows_figures.histogram_figure(aa.histograms[row.metric])),
        )
        for i, row in enumerate(aa.metrics)
    )


def _looks_sentence(looks: Sequence[Look]) -> str:
    """What daily looks would have declared."""
    if not looks:
        return ""
    naive = next((look.day for look in looks if look.fixed_declares != "unclear"), None)
    valid = next((look.day for look in looks if look.always_declares != "unclear"), None)
    early = "nothing" if naive is None else f"an effect on {naive}"
    late = "nothing" if valid is None else f"it on {valid}"
    return f"A naive reader would have declared {early}; the always-valid test declares {late}."


def _rhythm_sentence(tests: Sequence[Rhythm]) -> str:
    words = [
        f"Not tested: {test.reason}."
        if test.p_value is None
        else f"One effect in all {test.parts} of them: p {fmt.p_value(test.p_value)}."
        for test in tests
    ]
    return " ".join(words)
