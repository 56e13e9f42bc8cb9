"""Run the trust checks, and find the metrics that they make untrusted."""

from collections.abc import Sequence
from dataclasses import replace

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.wanted import reads_rows
from abeval.errors import ExperimentError, mask_secrets
from abeval.experiment.metrics import find_metrics_by_name, list_available_metrics
from abeval.experiment.model import Experiment
from abeval.inference import context
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Reason
from abeval.inference.trust import groups, split
from abeval.inference.trust.audits import note_small_variants
from abeval.inference.trust.catalogue import CHECKS, list_added_checks
from abeval.inference.trust.finding import RawCheck, TrustCheck, apply_thresholds
from abeval.metrics.definition import Metric
from abeval.results.analysis import CheckResult
from abeval.results.trust import AAResult, Check


def run_trust_checks(analysis: Analysis, aa: AAResult | None = None) -> tuple[Check, ...]:
    """Run every check, in the order of how much each can spoil."""
    findings: list[RawCheck] = []
    for check in CHECKS:
        if check.name == groups.AA:
            check = check(lambda analysis: groups.report_replays(analysis, aa))
        if _applies(check, analysis):
            findings += _find(check, analysis)
    for check in list_added_checks():
        if _applies(check, analysis):
            findings += _find_added(check, analysis)
    # Messages may name files, whose addresses may hold secrets.
    return tuple(
        replace(check, message=mask_secrets(check.message))
        for check in apply_thresholds(findings, analysis.experiment.trust)
    )


def _applies(check: TrustCheck, analysis: Analysis) -> bool:
    """Tell whether the experiment has the data that a check needs."""
    kind = "units" if analysis.experiment.is_unit_table else "log"
    return check.of in (kind, "both") and bool(analysis.aggregates.audits or not check.audit)


def _find(check: TrustCheck, analysis: Analysis) -> list[RawCheck]:
    """Run a check; say which variants have too few units to be compared."""
    findings = check.findings(analysis)
    if not check.pairs:
        return findings
    return [note_small_variants(analysis, finding) for finding in findings]


def _find_added(check: TrustCheck, analysis: Analysis) -> list[RawCheck]:
    """Run a check from outside, which may fail in any way."""
    try:
        return _find(check, analysis)
    except Exception as error:
        reason = f"the added trust check {check.name!r} failed: {type(error).__name__}: {error}"
        hint = "it gets an Analysis, and returns an abeval.RawCheck, a list of them, or None"
        raise ExperimentError(reason, hint) from error


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


def list_checked_metrics(experiment: Experiment) -> list[Metric]:
    """List the metrics whose sums the checks need.

    Without any, the impressions per unit, which every log has.
    """
    metrics = [
        m for m in find_metrics_by_name(experiment) if m.source.per_unit and not reads_rows(m)
    ]
    return metrics or [list_available_metrics(experiment)["impressions_per_user"]]


def disable_replays(experiment: Experiment) -> Experiment:
    """Disable A/A replays, which take most of the time of a check."""
    trust = experiment.trust.model_copy(update={"aa_runs": 0})
    return experiment.model_copy(update={"trust": trust})


def check(experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates) -> CheckResult:
    """Run the checks alone, without a scorecard."""
    experiment = context.add_questions(experiment, aggregates)
    names = {metric.name for metric in metrics}
    others = [m for m in find_metrics_by_name(experiment) if m.name not in names]
    refused = {m.name: ("an analysis: the checks do not compute it",) for m in others}
    partial_aggregates = replace(aggregates, refused=refused | dict(aggregates.refused))
    analysis = Analysis(experiment, [*metrics, *others], partial_aggregates)
    no_replays = "A/A replays are of `abeval analyze` and `abeval aa`"
    checks = [
        replace(trust_check, message=no_replays) if trust_check.name == groups.AA else trust_check
        for trust_check in run_trust_checks(analysis)
    ]
    return CheckResult(
        experiment=context.build_experiment_info(experiment, aggregates),
        trust=tuple(checks),
        accounting=context.account_for_rows(aggregates),
        notes=tuple(map(mask_secrets, aggregates.notes)),
        split_days=split.split_days(analysis),
        split_places=split.split_places(analysis),
    )
