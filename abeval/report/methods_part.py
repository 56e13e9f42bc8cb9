"""The part of the page on methods: what each number is, how it was computed, and from what.

`registry.py` lists it. The page shows it without scripts, too.
"""

from collections.abc import Iterator
from typing import NamedTuple

from markupsafe import Markup

from abeval.report import templates
from abeval.report.effects import anchors
from abeval.report.method_words import Method, words_of
from abeval.report.section import Section
from abeval.results import MetricInfo, Row
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.study import Study


class Setting(NamedTuple):
    """A setting and its value."""

    name: str
    value: str


def methods_part(study: Study) -> Section | None:
    """Definitions, methods, settings, the experiment file, SQL, versions and inputs."""
    result, provenance = study.analysis, study.provenance
    if result is None and provenance is None:
        return None
    html = templates.render(
        "methods.html",
        result=result,
        info=None if result is None else result.experiment,
        anchors={} if result is None else anchors(result.metrics),
        used={} if result is None else {m.name: _used(result, m) for m in result.metrics},
        methods=() if result is None else _methods(result),
        settings=() if result is None else tuple(_settings(result)),
        set_for={} if result is None else {m.name: _set_for(result, m) for m in result.metrics},
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
    codes = dict.fromkeys(row.method for row in result.scorecard if row.method)
    return tuple(words_of(code) for code in codes)


def _settings(result: Result) -> Iterator[Setting]:
    info = result.experiment
    yield Setting("alpha", f"{info.alpha:g}")
    yield Setting("correction of goals × variants", info.family)
    yield Setting("correction of the guardrails of a variant", "holm")
    yield Setting("looks", info.looks)
    yield Setting("adjustment", info.adjust)
    yield Setting("unit", info.unit)
    yield Setting("time zone", info.timezone)


def _set_for(result: Result, metric: MetricInfo) -> str:
    """What was set or estimated for one metric: covariates' coefficients, caps."""
    parts = []
    for change in result.adjustments:
        if change.metric == metric.name:
            if change.theta:
                parts.append(f"{change.variant}: θ {', '.join(f'{t:.3g}' for t in change.theta)}")
            if change.cap is not None:
                parts.append(f"{change.variant}: capped at {change.cap:.6g}")
    return "; ".join(parts)
