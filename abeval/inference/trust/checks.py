"""List the trust checks, run them, and find the metrics that they make untrusted."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.wanted import reads_rows
from abeval.errors import ExperimentError, mask_secrets
from abeval.experiment.metrics import find_metrics_by_name, list_available_metrics
from abeval.experiment.model import Experiment
from abeval.inference import context
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Reason
from abeval.inference.trust import (
    breaks,
    exposures,
    groups,
    hours,
    influence,
    rows,
    shares,
    split,
)
from abeval.inference.trust.audits import note_small_variants
from abeval.inference.trust.finding import RawCheck, TrustCheck, apply_thresholds
from abeval.metrics.definition import Metric
from abeval.plugins import load_entry_points
from abeval.results.analysis import CheckResult
from abeval.results.trust import AAResult, Check

CHECKS: tuple[TrustCheck, ...] = (
    hours.clock,
    hours.short_days,
    hours.missing_hours,
    breaks.breaks,
    breaks.missing_outcomes,
    hours.late_data,
    shares.audits,
    *shares.BY_VARIANT,
    shares.serving,
    shares.SILENT_UNITS,
    influence.bots,
    influence.influence_check,
    split.split_check,
    split.srm_check,
    split.check_segment_splits,
    hours.slot_hours,
    hours.carry_over,
    rows.crossover,
    rows.placeholder_ids,
    rows.coarser_unit,
    rows.assignment,
    groups.pre_period,
    groups.denominators,
    groups.missing_values,
    exposures.untriggered,
    groups.aa_check,
    exposures.before_exposure,
    exposures.near_exposure,
    exposures.outcome_duplicates,
    exposures.outcome_states,
    rows.missing_days,
    shares.LACKING_COLUMNS,
    rows.outside_period,
    *rows.SET_ASIDE,
    rows.variant_spelling,
)
"""Every check of abeval, in the order of how much it can spoil."""

ENTRY_POINTS = "abeval.checks"
"""The entry points by which installed packages add their checks."""

# Names up to the colon: tests of one such name share a part of the budget of false alarms.
_NAMES = {name.partition(":")[0] for check in CHECKS for name in (check.name, check.check) if name}

_added: dict[str, TrustCheck] = {}


def add_check(check: TrustCheck) -> TrustCheck:
    """Add a check to those of abeval, for every analysis of this process.

    It takes the place of a check of the same name that was added before.

    Raises:
        ExperimentError: abeval has a check of this name.
    """
    _check_name(check)
    _added[check.name] = check
    return check


def list_added_checks() -> tuple[TrustCheck, ...]:
    """List the checks of installed packages, and those that this process added."""
    return tuple(({check.name: check for check in load_installed_checks()} | _added).values())


@cache
def load_installed_checks() -> tuple[TrustCheck, ...]:
    """Load the checks of installed packages.

    Raises:
        ExperimentError: A check cannot be loaded, or is no `TrustCheck` with a name of its own.
    """
    where = "the trust check {name} = {value} of an installed package"
    problem = f"{where} cannot be loaded: {{error}}"
    checks = []
    for point, check in load_entry_points(
        ENTRY_POINTS, lambda check: check, problem, "mend the package, or remove it"
    ):
        if not isinstance(check, TrustCheck):
            what = f"{where.format(name=point.name, value=point.value)} is a {type(check).__name__}"
            raise ExperimentError(what, "declare it with @abeval.TrustCheck (CONTRIBUTING.md)")
        _check_name(check)
        checks.append(check)
    return tuple(checks)


def _check_name(check: TrustCheck) -> None:
    for name in (check.name, check.check):
        if name.partition(":")[0] in _NAMES:
            what = f"abeval has a trust check {name.partition(':')[0]!r} itself"
            raise ExperimentError(what, "choose another name")


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
