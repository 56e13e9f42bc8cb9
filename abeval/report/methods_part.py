"""Build the page part on methods: definitions, formulas, settings, inputs."""

import csv
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from abeval.report import assets
from abeval.report.figures import Block
from abeval.report.parts import page_part
from abeval.results import Row
from abeval.results import format as fmt
from abeval.results.analysis import Result
from abeval.results.study import Study


class Method(NamedTuple):
    """A statistical method: its description, its formula and its source."""

    code: str
    words: str
    formula: str
    source: str


@cache
def _methods() -> tuple[Method, ...]:
    """Read the methods, the prefixes of their codes, and the intervals of a lift."""
    _, *rows = csv.reader(assets.text("methods.csv").splitlines())
    return tuple(Method(*row) for row in rows)


def describe_method(code: str) -> Method:
    """Describe a method by its code; unknown ones refer to `docs/methods.md`.

    Example:
        >>> describe_method("cuped_welch_t").words[:40]
        'after subtracting θ·(covariate before − '
    """
    for method in _methods():
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


@page_part("methods", view="evidence", title="Methods and definitions", short="Methods", after="aa")
def methods_part(study: Study) -> Iterator[Block]:
    """Build the part: definitions, methods, settings, the file, SQL, versions."""
    result, provenance = study.analysis, study.provenance
    if result is None and provenance is None:
        return
    rows = () if result is None else result.scorecard
    descriptions = {method.code: method.words for method in _methods()}
    lifts = dict.fromkeys(row.lift_method for row in rows if row.lift_method)
    yield assets.block(
        "methods.html",
        result=result,
        provenance=provenance,
        ran=() if provenance is None else dict(provenance.queries),
        alpha=study.alpha,
        methods=[
            describe_method(code) for code in dict.fromkeys(row.method for row in rows) if code
        ],
        settings=() if result is None else [*_settings(study, result)],
        decided=_describe_decision_rule,
        lift_words=[
            (name, descriptions.get(f"lift:{name}", descriptions["lift:"])) for name in lifts
        ],
    )


def _settings(study: Study, result: Result) -> Iterator[tuple[str, str]]:
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
        most = max(metric.runs for metric in result.aa)
        yield "A/A replays of the trust check", fmt.count(most)
    if study.aa is not None and study.aa.metrics:
        most = max(metric.runs for metric in study.aa.metrics)
        seed = "" if study.aa.seed is None else f", seed {study.aa.seed}"
        yield "A/A replays", f"{fmt.count(most)}{seed}"


def _describe_decision_rule(row: Row, result: Result) -> str:
    """Name the p-value or interval that decides the status of a row."""
    alpha = f"{result.experiment.alpha:g}"
    if row.role == "guardrail":
        holm = "" if result.experiment.family == "none" else " after holm over guardrails"
        return f"its margin, at {alpha}; worse: p{holm} ≤ {alpha}"
    if row.role == "goal" and result.experiment.family != "none":
        return f"p after {result.experiment.family} over goals × variants ≤ {alpha}"
    return f"p ≤ {alpha}"
