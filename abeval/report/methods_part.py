"""The part of the page on methods: what each number is, how it was computed, and from what.

`registry.py` lists it. The page shows it without scripts, too.
"""

from collections.abc import Iterator
from typing import NamedTuple

from markupsafe import Markup

from abeval.report import assets
from abeval.report.effects import anchors
from abeval.report.figures import Section
from abeval.report.tables import changes, units_of
from abeval.results import MetricInfo, Row, codes
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.study import Study


class Setting(NamedTuple):
    """A setting and its value."""

    name: str
    value: str


class RowSetting(NamedTuple):
    """What was set for one row of the scorecard, as text."""

    name: str
    method: str
    decided: str
    looks: str
    lift: str
    draws: str
    adjusted: str


def methods_part(study: Study) -> Section | None:
    """Definitions, methods, settings, the experiment file, SQL, versions and inputs."""
    result, provenance = study.analysis, study.provenance
    if result is None and provenance is None:
        return None
    html = assets.render(
        "methods.html",
        result=result,
        info=None if result is None else result.experiment,
        anchors={} if result is None else anchors(result.metrics),
        used={} if result is None else {m.name: _used(result, m) for m in result.metrics},
        methods=() if result is None else _methods(result),
        settings=() if result is None else tuple(_settings(study, result)),
        row_settings=() if result is None else tuple(_row_settings(result)),
        lift_words=() if result is None else _lift_words(result),
        provenance=provenance,
        level=fmt.level(study.alpha),
    )
    return Section("", (Markup(html),))  # noqa: S704 (the template escapes)


def _rows(result: Result, metric: MetricInfo) -> list[Row]:
    return [row for row in result.scorecard if row.metric == metric.name]


def _used(result: Result, metric: MetricInfo) -> tuple[str, ...]:
    return tuple(dict.fromkeys(r.method for r in _rows(result, metric) if r.method))


def _methods(result: Result) -> tuple[Method, ...]:
    """The methods that rows name."""
    methods = dict.fromkeys(row.method for row in result.scorecard if row.method)
    return tuple(words_of(code) for code in methods)


def _settings(study: Study, result: Result) -> Iterator[Setting]:
    info = result.experiment
    yield Setting("alpha", f"{info.alpha:g}")
    yield Setting("correction of goals × variants", info.family)
    yield Setting("correction of the guardrails of a variant", "holm")
    yield Setting("looks", info.looks)
    yield Setting("adjustment", info.adjust)
    yield Setting("unit", info.unit)
    yield Setting("time zone", info.timezone)
    if result.aa:
        most = max(metric.runs for metric in result.aa)
        yield Setting("A/A replays of the trust check", fmt.count(most))
    if study.aa is not None and study.aa.metrics:
        most = max(metric.runs for metric in study.aa.metrics)
        seed = "" if study.aa.seed is None else f", seed {study.aa.seed}"
        yield Setting("A/A replays", f"{fmt.count(most)}{seed}")


def _row_settings(result: Result) -> Iterator[RowSetting]:
    several = len({row.variant for row in result.scorecard}) > 1
    units = units_of(result)
    changed = {
        (change.metric, change.variant): changes(change, units.get(change.metric, ""))
        for change in result.adjustments
    }
    for row in result.scorecard:
        yield RowSetting(
            f"{row.metric}, {row.variant}" if several else row.metric,
            row.method or codes.reason(row.reason) or fmt.MISSING,
            _decided(row, result),
            result.experiment.looks,
            row.lift_method or fmt.MISSING,
            "none" if row.draws is None else f"{fmt.count(row.draws)}, {row.seed}",
            changed.get((row.metric, row.variant)) or "none",
        )


def _decided(row: Row, result: Result) -> str:
    """The p-value or the interval that the status follows."""
    alpha = f"{result.experiment.alpha:g}"
    if row.role == "guardrail":
        holm = "" if result.experiment.family == "none" else " after holm over guardrails"
        return f"its margin, at {alpha}; worse: p{holm} ≤ {alpha}"
    if row.role == "goal" and result.experiment.family != "none":
        return f"p after {result.experiment.family} over goals × variants ≤ {alpha}"
    return f"p ≤ {alpha}"


def _lift_words(result: Result) -> tuple[tuple[str, str], ...]:
    """How each interval of a lift that the rows have is computed, and why so."""
    names = dict.fromkeys(row.lift_method for row in result.scorecard if row.lift_method)
    return tuple((name, LIFT_WORDS.get(name, OWN_LIFT)) for name in names)
