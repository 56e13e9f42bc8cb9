"""Write the value of a policy as one HTML file: estimates, the log's support, what to doubt."""

from collections.abc import Mapping

from abeval.report import figures as fig
from abeval.report.sections import Section, sections_html
from abeval.report.short import (
    notes,
    off_policy_estimates,
    off_policy_support,
    off_policy_value,
)
from abeval.results.off_policy import OffPolicyResult

Ends = tuple[float | None, float | None, float | None]


def intervals_figure(
    rows: Mapping[str, tuple[Ends, str]], axis: str, at: float | None
) -> fig.Figure:
    """Draw values with their intervals and words, by name, and maybe a dashed line."""
    spots = [
        fig.Spot(i, ends, f"{name}: {words}")
        for i, (name, (ends, words)) in enumerate(rows.items())
    ]
    drawn = fig.forest([*rows], {"estimate": spots}, **fig.value_axis(axis))
    if at is not None:
        drawn["layout"]["shapes"] = [fig.line_at("x", at)]
    return drawn


def estimates_figure(result: OffPolicyResult) -> fig.Figure:
    """Draw each estimate with its interval; dashed: what the policy really had."""
    rows = {
        row.estimator: ((row.value, row.low, row.high), off_policy_value(row))
        for row in result.rows
        if row.value is not None
    }
    real = None if result.realised is None else result.realised.value
    return intervals_figure(rows, "clicks or reward an impression", real)


def off_policy_html(result: OffPolicyResult) -> str:
    """Write the page."""
    has_values = any(row.value is not None for row in result.rows)
    drawn = fig.FigureView("", "", estimates_figure(result), ("drawn",))
    estimates = off_policy_estimates(result)
    return sections_html(
        "Off-policy evaluation",
        f"{result.experiment}: {estimates.title}",
        _opening(result),
        Section.of(estimates._replace(title="Estimates"), *[drawn] * has_values),
        Section.of(off_policy_support(result)),
        Section("doubts", "What cannot be trusted", sentences=notes(result)),
    )


def _opening(result: OffPolicyResult) -> list[str]:
    """Say what SNIPS and DR estimate, or that the log cannot tell."""
    said = [
        f"Worth by {row.estimator}: {off_policy_value(row)}"
        for row in result.rows
        if row.estimator in ("snips", "dr") and row.value is not None
    ]
    return said or [f"The log of {result.source} cannot tell what {result.policy} is worth"]
