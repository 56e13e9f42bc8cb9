"""Write the value of a policy as one HTML file: estimates, the log's support, what to doubt."""

from abeval.report import figures as fig
from abeval.report.sections import Section, sections_html
from abeval.report.short import (
    notes,
    off_policy_estimates,
    off_policy_support,
    off_policy_value,
)
from abeval.report.tables import filled, numbers
from abeval.results import format as fmt
from abeval.results.off_policy import OffPolicyResult


def estimates_figure(result: OffPolicyResult) -> fig.Figure:
    """Draw each estimate with its interval; dashed: what the policy really had."""
    rows = [row for row in result.rows if row.value is not None]
    spots = [
        fig.Spot(i, (row.value, row.low, row.high), f"{row.estimator}: {off_policy_value(row)}")
        for i, row in enumerate(rows)
    ]
    drawn = fig.forest(
        [row.estimator for row in rows],
        {"estimate": spots},
        **fig.value_axis("clicks or reward an impression"),
    )
    if result.realised is not None:
        drawn["layout"]["shapes"] = [fig.line_at("x", result.realised.value)]
    return drawn


def off_policy_html(result: OffPolicyResult) -> str:
    """Write the page."""
    estimates, support = off_policy_estimates(result), off_policy_support(result)
    drawn = fig.FigureView(
        "", "", estimates_figure(result), numbers(()), ("estimates",), slug="estimates-figure"
    )
    has_values = any(row.value is not None for row in result.rows)
    return sections_html(
        "Off-policy evaluation",
        f"{result.experiment}: {estimates.title}",
        _opening(result),
        Section(
            "estimates",
            "Estimates",
            estimates.lead,
            (*[drawn] * has_values, filled(estimates)._replace(title="", lead="")),
        ),
        Section("support", "Support", support.lead, (support._replace(title="", lead=""),)),
        Section("doubts", "What cannot be trusted", sentences=notes(result)),
    )


def _opening(result: OffPolicyResult) -> list[str]:
    """Say what SNIPS and DR estimate, or that the log cannot tell."""
    by_name = {row.estimator: row for row in result.rows}
    chosen = [row for name in ("snips", "dr") if (row := by_name.get(name)) and row.value]
    said = [f"Worth by {row.estimator}: {off_policy_value(row)}" for row in chosen]
    if not said:
        said = [f"The log of {result.source} cannot tell what {result.policy} is worth"]
    if result.support is not None:
        size = f"{result.support.ess:,.0f} of {result.support.rows:,} rows count in effect"
        said.append(f"{size} ({fmt.percent(result.support.ess_share)})")
    return said
