"""Checks of files that lack a column: is their share of the impressions alike in all variants?"""

import math

from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import Significance, Words, touched
from abeval.stats import off_policy
from abeval.stats.distributions import tail
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal


def lacking_checks(analysis: Analysis) -> list[Significance]:
    """Do files that lack a column have another share of the impressions in some variant?"""
    experiment = analysis.experiment
    checks = []
    for column, moments in analysis.aggregates.lacking().items():
        by_variant = {name: moments.get(name) for name in experiment.variants}
        control = by_variant[experiment.control]
        p_values = [same_share(control, by_variant[variant]) for variant in experiment.treatments]
        p_value = min(1.0, len(p_values) * min(p_values))
        shares = ", ".join(f"{name} {_shown_share(m)}" for name, m in by_variant.items())
        message = (
            f"some files lack the column {column!r}, with so many of the impressions: {shares} "
            f"(p = {p_value:.2g} if that is alike in all variants); the notes name the files"
        )
        remedy = "complete the files, or leave their days out of [period]"
        checks.append(
            Significance(
                f"lacking_column:{column}",
                p_value,
                Words(message, message, remedy),
                metrics=touched(analysis.metrics, _canonical(analysis, column)),
                least="warn",
            )
        )
    return checks


def _canonical(analysis: Analysis, column: str) -> set[str]:
    """The names that metrics have for a column of the log: its own, and the canonical one."""
    experiment = analysis.experiment
    own = {"unit_id": experiment.unit, **experiment.logs.rows.columns}
    lower = column.lower()
    return {lower} | {name for name, text in own.items() if text.lower() == lower}


def _shown_share(moments: Moments | None) -> str:
    if moments is None or not moments.mean[1]:
        return "no impressions"
    return f"{moments.mean[0] / moments.mean[1]:.1%}"


def same_share(control: Moments | None, treatment: Moments | None) -> float:
    """Two-sided p-value of equal shares, clustered by unit; 0 for shares that differ for sure."""
    if control is None or treatment is None:
        return 1.0
    try:
        first, second = off_policy.estimate(control), off_policy.estimate(treatment)
    except Refusal:
        return 1.0
    difference, variance = second.value - first.value, first.variance + second.variance
    if variance == 0:
        return 1.0 if difference == 0 else 0.0
    return tail(difference / math.sqrt(variance)).p_value
