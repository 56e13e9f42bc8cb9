"""List the trust checks, and the metrics that they make untrusted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.wanted import reads_rows
from abeval.errors import mask_secrets
from abeval.experiment.metrics import known_metrics, named_metrics
from abeval.experiment.model import Experiment
from abeval.inference import context
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Reason
from abeval.inference.trust import audits, groups, hours, influence, rows, split
from abeval.inference.trust.finding import CheckDefinition, Find, RawCheck, apply_thresholds
from abeval.metrics.definition import Metric
from abeval.packaged import load_toml_next_to
from abeval.results import Check
from abeval.results.analysis import CheckResult
from abeval.results.trust import AAResult

_FIND: Mapping[str, Find] = {
    "clock": hours.clock,
    "short_days": hours.short_days,
    "missing_hours": hours.missing_hours,
    "late_data": hours.late_data,
    "audits": lambda analysis: [] if analysis.aggregates.audits else None,
    "served": audits.check_serving,
    "bots": influence.bots,
    "influence": influence.influence_check,
    "split": split.change_checks,
    "srm": split.srm_check,
    "srm:SEGMENT": split.segment_checks,
    "slot_hours": hours.slot_hours,
    "carry_over": hours.carry_over,
    "crossover": rows.crossover,
    "coarser_unit": rows.coarser_unit,
    "assignment": rows.assignment,
    "pre_period": groups.check_pre_period,
    groups.DENOMINATORS: groups.denominator_checks,
    groups.AA: lambda analysis: groups.aa_check(analysis, None),
    "missing_values:METRIC:VARIANT": groups.check_missing_values,
    "before_exposure": rows.before_exposure,
    "missing_days": rows.missing_days,
    "impressions_outside_period": rows.outside_period,
    "variant_spelling": rows.variant_spelling,
}


def _build_definition(name: str, fields: dict[str, Any]) -> CheckDefinition:
    """Build the definition of a check from its table in `checks.toml`."""
    share, aside = fields.pop("share", None), fields.pop("aside", "")
    row = CheckDefinition(name, **fields)
    if share is not None:
        return row._replace(find=audits.Shares(row, **share).find)
    if aside:
        log, _, reason = name.partition("_")
        tell = rows.duplicates if reason == "duplicate" else rows.left_out
        return row._replace(find=lambda analysis: tell(analysis, log, reason, aside))
    return row._replace(find=_FIND[name])


_TABLE = load_toml_next_to(__file__, "checks.toml")

ROWS = tuple(_build_definition(name, fields) for name, fields in _TABLE.items())
"""Every check, in the order of how much it can spoil."""


def trust_checks(analysis: Analysis, aa: AAResult | None = None) -> tuple[Check, ...]:
    """Run every check, in the order of how much each can spoil."""
    kinds = ("units", "both") if analysis.experiment.is_unit_table else ("log", "both")
    findings: list[RawCheck] = []
    for row in ROWS:
        if row.name == groups.AA:
            row = row._replace(find=lambda analysis: groups.aa_check(analysis, aa))
        if row.of in kinds and (analysis.aggregates.audits or not row.audit):
            row_findings = row.findings(analysis)
            findings += (
                [audits.note_small_variants(analysis, finding) for finding in row_findings]
                if row.pairs
                else row_findings
            )
    # Messages may name files, whose addresses may hold secrets.
    return tuple(
        replace(check, message=mask_secrets(check.message))
        for check in apply_thresholds(findings, analysis.experiment.trust)
    )


def find_untrusted_metrics(
    analysis: Analysis, checks: Sequence[Check], aa: AAResult | None
) -> dict[str, Reason]:
    """Find metrics touched by a failed check or failing A/A, and which of the two."""
    replays = next((check for check in checks if check.name == groups.AA), None)
    failing_aa = groups.find_metrics_failing_aa(aa, replays, analysis.experiment.trust)
    failed = [check for check in checks if check.status == "fail"]
    names = [metric.name for metric in analysis.metrics]
    touched = [name for name in names if any(check.touches([name]) for check in failed)]
    doubts: dict[str, Reason] = dict.fromkeys(failing_aa, "failed_aa")
    return doubts | dict.fromkeys(touched, "failed_trust_check")


def checked_metrics(experiment: Experiment) -> list[Metric]:
    """List the metrics whose sums the checks need.

    Without any, the impressions per unit, which every log has.
    """
    metrics = [m for m in named_metrics(experiment) if m.source.per_unit and not reads_rows(m)]
    return metrics or [known_metrics(experiment)["impressions_per_user"]]


def disable_replays(experiment: Experiment) -> Experiment:
    """Disable A/A replays, which take most of the time of a check."""
    trust = experiment.trust.model_copy(update={"aa_runs": 0})
    return experiment.model_copy(update={"trust": trust})


def check(experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates) -> CheckResult:
    """Run the checks alone, without a scorecard."""
    experiment = context.add_questions(experiment, aggregates)
    names = {metric.name for metric in metrics}
    others = [m for m in named_metrics(experiment) if m.name not in names]
    refused = {m.name: ("an analysis: the checks do not compute it",) for m in others}
    partial_aggregates = replace(aggregates, refused=refused | dict(aggregates.refused))
    analysis = Analysis(experiment, [*metrics, *others], partial_aggregates)
    no_replays = "A/A replays are of `abeval analyze` and `abeval aa`"
    checks = [
        replace(trust_check, message=no_replays) if trust_check.name == groups.AA else trust_check
        for trust_check in trust_checks(analysis)
    ]
    return CheckResult(
        experiment=context.experiment_info(experiment, aggregates),
        trust=tuple(checks),
        accounting=context.accounting(aggregates),
        notes=tuple(map(mask_secrets, aggregates.notes)),
        split_days=split.split_days(analysis),
        split_places=split.split_places(analysis),
    )
