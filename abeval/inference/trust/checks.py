"""List the trust checks, and the metrics that they make untrusted."""

from collections.abc import Sequence
from dataclasses import replace

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.wanted import reads_rows
from abeval.errors import masked
from abeval.experiment.metrics import known_metrics, named_metrics
from abeval.experiment.model import Experiment
from abeval.experiment.problems import worded
from abeval.inference import context
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Reason
from abeval.inference.trust import audits, groups, hours, influence, rows, split
from abeval.inference.trust.audits import SHARES
from abeval.inference.trust.finding import Finding, Row, decided, skipped
from abeval.metrics.definition import Metric
from abeval.results import Check
from abeval.results.analysis import CheckResult
from abeval.results.trust import AAResult

_NOT_AUDITED = skipped(
    "the log is not audited by variant: sums have no rows to audit, and rows without a unit say "
    "nothing of who they are of"
)
_NO_AUDITS = Row("audits", lambda _: _NOT_AUDITED, of="both")

_HOURS = (
    Row("clock", hours.clock, pairs=True),
    Row("short_days", hours.short_days, pairs=True),
    Row("missing_hours", hours.missing_hours),
    Row("late_data", hours.late_data),
)

_AUDITS = (
    Row("list_holes", audits.list_holes, pairs=True),
    Row("list_start", SHARES["list_start"].find, pairs=True),
    Row("lists_again", SHARES["lists_again"].find, pairs=True),
    Row("nulls", audits.nulls, of="both", pairs=True),
    Row("duplicates_by_variant", SHARES["duplicates_by_variant"].find, of="both", pairs=True),
    Row("set_aside_by_variant", SHARES["set_aside_by_variant"].find, pairs=True),
    Row("repeated_clicks", SHARES["repeated_clicks"].find, pairs=True),
    # This check, and `served`, also judge each variant's own share, of however few units.
    Row("clicks_before", SHARES["clicks_before"].find),
    Row("click_delay", SHARES["click_delay"].find, pairs=True),
    Row("repeated_lists", SHARES["repeated_lists"].find, pairs=True),
    Row("missing_clicks", audits.missing_clicks, pairs=True),
    Row("served", audits.served),
    Row("silent_units", SHARES["silent_units"].find, pairs=True),
)

_GROUPS = (
    Row("bots", influence.bots),
    Row("influence", influence.influence_check, of="both"),
    Row("split", split.change_checks, of="both"),
    Row("srm", split.srm_check, of="both"),
    Row("srm:SEGMENT", split.segment_checks, of="both"),
    Row("crossover", rows.crossover, of="both"),
    Row("crossover_policies", rows.crossover_policies, of="both"),
    Row("assignment", rows.assignment, of="both"),
    Row("pre_period", groups.before_checks, of="both"),
    Row(groups.DENOMINATORS, groups.denominator_checks, of="both"),
    Row("missing_values:METRIC:VARIANT", groups.known_checks, of="both"),
)

_ROWS = (
    Row("missing_days", rows.missing_days),
    Row("lacking_column", rows.lacking_columns, of="both"),
    Row("impressions_outside_period", rows.outside_period),
    Row("LOG_duplicate", rows.duplicates, of="both"),
    Row("LOG_null_unit", rows.left_out("null_unit"), of="both"),
    Row("LOG_null_time", rows.left_out("null_time")),
    Row("LOG_null_variant", rows.left_out("null_variant"), of="both"),
    Row("LOG_repeated_unit", rows.left_out("repeated_unit"), of="units"),
    Row("clicks_no_impression", rows.left_out("no_impression", "clicks")),
    Row("clicks_late", rows.left_out("late", "clicks")),
    Row("clicks_ambiguous_impression", rows.left_out("ambiguous_impression", "clicks")),
    Row("variant_spelling", rows.variant_spelling, of="both"),
)


def trust_checks(analysis: Analysis, aa: AAResult | None = None) -> tuple[Check, ...]:
    """Return every check, in the order of how much it can spoil."""
    replays = Row(groups.AA, lambda analysis: groups.aa_check(analysis, aa), of="both")
    audited = _AUDITS if analysis.aggregates.audits else (_NO_AUDITS,)
    kinds = ("units", "both") if analysis.experiment.of_units else ("log", "both")
    found: list[Finding] = []
    for row in (*_HOURS, *audited, *_GROUPS, replays, *_ROWS):
        if row.of in kinds:
            own = row.findings(analysis)
            found += [audits.without_few(analysis, one) for one in own] if row.pairs else own
    language = analysis.experiment.language
    # Messages may name files, whose addresses may hold secrets.
    return tuple(
        replace(
            one,
            message=masked(worded(one.message, language)),
            remedy=worded(one.remedy, language, is_hint=True),
            threshold_reason=worded(one.threshold_reason, language),
        )
        for one in decided(found, analysis.experiment.trust)
    )


def untrusted(
    analysis: Analysis, checks: Sequence[Check], aa: AAResult | None
) -> dict[str, Reason]:
    """Return metrics whose numbers a failed check, or A/A, touches, and which of the two."""
    replays = next((check for check in checks if check.name == groups.AA), None)
    doubted = groups.doubted(aa, replays, analysis.experiment.trust)
    failed = [check for check in checks if check.status == "fail"]
    names = [metric.name for metric in analysis.metrics]
    touched = [name for name in names if any(check.touches([name]) for check in failed)]
    doubts: dict[str, Reason] = dict.fromkeys(doubted, "failed_aa")
    return doubts | dict.fromkeys(touched, "failed_trust_check")


def checked_metrics(experiment: Experiment) -> list[Metric]:
    """Return the metrics of the one pass over the log, whose sums the checks need.

    Without any, the impressions per unit, which every log has.
    """
    metrics = [m for m in named_metrics(experiment) if m.source.per_unit and not reads_rows(m)]
    return metrics or [known_metrics(experiment)["impressions_per_user"]]


def without_replays(experiment: Experiment) -> Experiment:
    """Return the experiment without A/A replays, which cost most of a check of metrics."""
    trust = experiment.trust.model_copy(update={"aa_runs": 0})
    return experiment.model_copy(update={"trust": trust})


def check(experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates) -> CheckResult:
    """Return what the checks say without a scorecard; they name all metrics that they touch."""
    names = {metric.name for metric in metrics}
    others = [m for m in named_metrics(experiment) if m.name not in names]
    refused = {m.name: ("an analysis: the checks do not compute it",) for m in others}
    known = replace(aggregates, refused=refused | dict(aggregates.refused))
    analysis = Analysis(experiment, [*metrics, *others], known)
    no_replays = "A/A replays are of `abeval analyze` and `abeval aa`"
    checks = [
        replace(one, message=no_replays) if one.name == groups.AA else one
        for one in trust_checks(analysis)
    ]
    return CheckResult(
        experiment=context.experiment_info(experiment, aggregates),
        trust=tuple(checks),
        accounting=context.accounting(aggregates),
        notes=tuple(map(masked, aggregates.notes)),
        split_days=split.split_days(analysis),
        split_places=split.split_places(analysis),
    )
