"""List the trust checks, and the metrics that they make untrusted."""

from collections.abc import Sequence
from dataclasses import replace

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.wanted import reads_rows
from abeval.errors import masked
from abeval.experiment.metrics import known_metrics, named_metrics
from abeval.experiment.model import Experiment
from abeval.inference import context
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Reason
from abeval.inference.trust.audits import audit_checks, machine_check
from abeval.inference.trust.finding import Finding, decided, skipped
from abeval.inference.trust.groups import NAME as AA
from abeval.inference.trust.groups import aa_check, before_checks, denominator_checks, doubted
from abeval.inference.trust.hours import hour_checks
from abeval.inference.trust.influence import influence_check
from abeval.inference.trust.rows import (
    assignment,
    crossover,
    lacking_checks,
    missing_days,
    outside_period,
    policy_check,
    row_checks,
    spelling_checks,
)
from abeval.inference.trust.split import (
    change_checks,
    segment_checks,
    split_days,
    split_places,
    srm_check,
)
from abeval.metrics.definition import Metric
from abeval.results import Check
from abeval.results.analysis import CheckResult
from abeval.results.trust import AAResult


def trust_checks(analysis: Analysis, aa: AAResult | None = None) -> tuple[Check, ...]:
    """Every check, in the order of how much it can spoil."""
    return decided(_findings(analysis, aa), analysis.experiment.trust)


def _findings(analysis: Analysis, aa: AAResult | None) -> list[Finding]:
    experiment, aggregates = analysis.experiment, analysis.aggregates
    of_log = not experiment.of_units
    whole = srm_check(experiment, aggregates)
    return [
        *(hour_checks(analysis) if of_log else []),
        *audit_checks(analysis),
        *([machine_check(analysis)] if of_log else []),
        influence_check(analysis),
        *change_checks(experiment, aggregates),
        whole,
        *segment_checks(experiment, aggregates, whole),
        crossover(experiment, aggregates),
        policy_check(analysis),
        assignment(experiment, aggregates),
        *before_checks(analysis),
        *denominator_checks(analysis),
        aa_check(analysis, aa),
        *([missing_days(experiment, aggregates)] if of_log else []),
        *lacking_checks(analysis),
        *([outside_period(experiment, aggregates)] if of_log else []),
        *row_checks(analysis),
        *spelling_checks(analysis),
    ]


def untrusted(
    analysis: Analysis, checks: Sequence[Check], aa: AAResult | None
) -> dict[str, Reason]:
    """Metrics whose numbers must not be trusted: those that a failed check, or A/A, touches."""
    names = [metric.name for metric in analysis.metrics]
    replays = next((check for check in checks if check.name == AA), None)
    doubts: dict[str, Reason] = dict.fromkeys(
        doubted(aa, replays, analysis.experiment.trust), "failed_aa"
    )
    failed = [check for check in checks if check.status == "fail"]
    touched = [name for name in names if any(check.touches([name]) for check in failed)]
    return doubts | dict.fromkeys(touched, "failed_trust_check")


_ELSEWHERE = "an analysis: the checks do not compute it"
_NO_REPLAYS = skipped(AA, "A/A replays are of `abeval analyze` and `abeval aa`")


def checked_metrics(experiment: Experiment) -> list[Metric]:
    """The metrics whose sums the checks need: those of the one pass over the log.

    Without any, the impressions per unit, which every log has.
    """
    metrics = [m for m in named_metrics(experiment) if m.source.per_unit and not reads_rows(m)]
    return metrics or [known_metrics(experiment)["impressions_per_user"]]


def without_replays(experiment: Experiment) -> Experiment:
    """The experiment without A/A replays: they check tests of metrics, and cost most of a check."""
    trust = experiment.trust.model_copy(update={"aa_runs": 0})
    return experiment.model_copy(update={"trust": trust})


def check(experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates) -> CheckResult:
    """What the checks say.

    Args:
        experiment: The plan.
        metrics: Those that were computed. The checks name all of the scorecard that they touch.
        aggregates: What the logs add up to.
    """
    names = {metric.name for metric in metrics}
    others = [m for m in named_metrics(experiment) if m.name not in names]
    refused = {m.name: (_ELSEWHERE,) for m in others} | dict(aggregates.refused)
    analysis = Analysis(experiment, [*metrics, *others], replace(aggregates, refused=refused))
    checks = [_NO_REPLAYS if one.name == AA else one for one in trust_checks(analysis)]
    return CheckResult(
        experiment=context.experiment_info(experiment, aggregates),
        trust=tuple(replace(one, message=masked(one.message)) for one in checks),
        accounting=context.accounting(aggregates),
        notes=tuple(map(masked, aggregates.notes)),
        split_days=split_days(experiment, aggregates),
        split_places=split_places(experiment, aggregates),
    )
