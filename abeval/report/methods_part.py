"""Build the page part on methods: definitions, formulas, settings, inputs."""

import csv
import shlex
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from abeval.report import assets
from abeval.report.figures import Block, MetricBlocks
from abeval.report.parts import page_part
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.effects import Row
from abeval.results.record import group_rows
from abeval.results.study import Study


class Method(NamedTuple):
    """A statistical method: its description, its formula and its source."""

    code: str
    words: str
    formula: str
    source: str


@cache
def _read_methods() -> tuple[Method, ...]:
    """Read the methods, the prefixes of their codes, and the intervals of a lift."""
    _, *rows = csv.reader(assets.read_asset("methods.csv").splitlines())
    return tuple(Method(*row) for row in rows)


def describe_method(code: str) -> Method:
    """Describe a method by its code; unknown ones refer to `docs/methods.md`.

    Example:
        >>> describe_method("cuped_welch_t").words[:40]
        'after subtracting θ·(covariate before − '
    """
    for method in _read_methods():
        if code in (method.code, method.code.removesuffix("_t")):
            return method._replace(code=code)
        # A prefix such as `cuped_` describes a step before the method that it stands before.
        if method.code.endswith("_") and code.startswith(method.code):
            inner = describe_method(code.removeprefix(method.code))
            source = f"{method.source}; {inner.source}"
            return Method(code, method.words + inner.words, inner.formula, source)
    if code.endswith("_diluted"):
        inner = describe_method(code.removesuffix("_diluted"))
        description = f"times the share of units that were triggered: the {inner.words}"
        return inner._replace(code=code, words=description)
    return Method(code, code.replace("_", " "), "", "docs/methods.md")


@page_part("definition", view="metric", title="Method and SQL", result="")
def _build_definition_part(study: Study) -> Iterator[MetricBlocks]:
    """Say how each metric is computed, judged and summed."""
    if (result := study.analysis) is None:
        return
    ran = {} if study.provenance is None else dict(study.provenance.queries)
    lifts = {method.code.removeprefix("lift:"): method.words for method in _read_methods()}
    several = len({row.variant for row in result.scorecard}) > 1
    for metric, rows in group_rows(result.scorecard, lambda row: row.metric).items():
        html = assets.render_block(
            "method.html",
            metric=result.info(metric),
            rows=rows,
            several=several,
            methods=[*map(describe_method, dict.fromkeys(r.method for r in rows if r.method))],
            lifts={
                r.lift_method: lifts.get(r.lift_method, lifts[""]) for r in rows if r.lift_method
            },
            decided=_describe_decision_rule(rows[0], result),
            ran=ran,
            command=f"abeval tools sql EXPERIMENT {shlex.quote(metric)}",
        )
        yield MetricBlocks(metric, (html,))


@page_part("methods", view="evidence", title="Methods and settings", short="Methods")
def build_methods_part(study: Study) -> Iterator[Block]:
    """Build the part: settings, how to read it, the file, SQL, versions."""
    result, provenance = study.analysis, study.provenance
    if result is None and provenance is None:
        return
    yield assets.render_block(
        "methods.html",
        result=result,
        provenance=provenance,
        alpha=study.alpha,
        settings=() if result is None else [*_list_settings(study, result)],
    )


def _list_settings(study: Study, result: Result) -> Iterator[tuple[str, str]]:
    """List the settings of the analysis with their values."""
    info = result.experiment
    yield "alpha", f"{info.alpha:g}"
    yield "correction of goals × variants", info.family
    yield "correction of the guardrails of a variant", "holm"
    yield "looks", info.looks
    yield "adjustment", info.adjust
    yield "unit", info.unit
    yield "time zone", info.timezone
    if result.aa:
        yield "A/A replays of the trust check", fmt.format_count(max(row.runs for row in result.aa))
    if study.aa is not None and study.aa.metrics:
        seed = "" if study.aa.seed is None else f", seed {study.aa.seed}"
        yield "A/A replays", f"{fmt.format_count(max(row.runs for row in study.aa.metrics))}{seed}"


def _describe_decision_rule(row: Row, result: Result) -> str:
    """Name the p-value or interval that decides the status of a row."""
    alpha = f"{result.experiment.alpha:g}"
    if row.role == "guardrail":
        holm = "" if result.experiment.family == "none" else " after holm over guardrails"
        return f"its margin, at {alpha}; worse: p{holm} ≤ {alpha}"
    if row.role == "goal" and result.experiment.family != "none":
        return f"p after {result.experiment.family} over goals × variants ≤ {alpha}"
    return f"p ≤ {alpha}"
