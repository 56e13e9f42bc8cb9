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
from abeval.inference.trust import audits, groups, hours, influence, rows, split
from abeval.inference.trust.audits import Shares
from abeval.inference.trust.finding import CLICK_COLUMNS, Finding, Row, decided, skipped
from abeval.metrics.definition import Metric
from abeval.results import Check
from abeval.results.analysis import CheckResult
from abeval.results.trust import AAResult

_NOT_AUDITED = Row(
    "audits",
    lambda _: skipped(
        "the log is not audited by variant: sums have no rows to audit, and rows without a unit "
        "say nothing of who they are of"
    ),
    of="both",
)

_HOURS = (
    Row(
        "clock",
        hours.clock,
        "look at the time zones and clocks of the services that write the log (`ts_zone`); days "
        "and the ends of the period are wrong too",
        pairs=True,
    ),
    Row(
        "short_days",
        hours.short_days,
        "look for files or events of that day that are not loaded yet, or were dropped, for the "
        "variant; load them again, or leave the day out of [period]",
        pairs=True,
    ),
    Row(
        "missing_hours",
        hours.missing_hours,
        "load the missing files or events again, or leave the hours out of [period]",
    ),
    Row(
        "late_data",
        hours.late_data,
        "analyse again when the log is whole, or let [period] end before",
    ),
)

_AUDITS = (
    Row(
        "list_holes",
        audits.list_holes,
        "look for rows lost between the service and the log, for one device or slot of the page",
        pairs=True,
    ),
    Row(
        "list_start",
        Shares(
            "list_start",
            "lists begin at the same position in all variants",
            "lists of one variant begin at another position",
            {"0": "lists from position 0 on", "2": "lists without their first position"},
            "large",
            columns=frozenset({"position"}),
        ).find,
        "where one variant counts from 0, add 1 to its positions (the file's `first_position` is "
        "of all rows); where the first position is missing, look for rows lost or filtered on "
        "their way, such as an item that is shown and not logged",
        pairs=True,
    ),
    Row(
        "lists_again",
        Shares(
            "list_repeat",
            "lists are not logged again within seconds, or alike in all variants",
            "lists with the same items in the same order are logged again within ten seconds",
            {"at once": "lists again within ten seconds, to the same unit"},
            "large",
        ).find,
        "look for requests that are sent again (a retry, a timeout that is too short) and logged "
        "each time under another id: impressions and lists per unit are too many",
        pairs=True,
    ),
    Row(
        "nulls",
        audits.nulls,
        "look at the service that writes this column for the variant, such as a model that timed "
        "out or another version of the event",
        of="both",
        pairs=True,
    ),
    Row(
        "duplicates_by_variant",
        Shares(
            "duplicate",
            "duplicate rows: the shares are alike in all variants",
            "duplicate rows: the shares are not alike",
            {"": "duplicate rows"},
        ).find,
        "look for events sent twice by the variant's client, or loaded twice",
        of="both",
        pairs=True,
    ),
    Row(
        "set_aside_by_variant",
        Shares(
            "set_aside",
            "rows set aside: the shares are alike in all variants",
            "rows set aside: the shares are not alike",
        ).find,
        "look at how the variant's events get their unit, their time and their exposure",
        pairs=True,
    ),
    Row(
        "repeated_clicks",
        Shares(
            "click_again",
            "as many clicks repeat another one on the same impression within ten seconds in all "
            "variants",
            "clicks are logged again within ten seconds of another on the same impression, in one "
            "variant more than in the other",
            {"": "all clicks"},
            "large",
            columns=CLICK_COLUMNS,
            segments=True,
            beside=("clicks_each", "clicks per clicked impression"),
        ).find,
        "look at the client of the variant: an event that is sent twice, a handler that is bound "
        "twice, or a retry; count a click of an impression once, in sums and in dwell",
        pairs=True,
    ),
    # Checks that also judge each variant's own share do so of however few units.
    Row(
        "clicks_before",
        Shares(
            "click_delay",
            "no click came before its impression",
            "clicks before their impression",
            {"early": ""},
            columns=CLICK_COLUMNS,
            tells=True,
            level=True,
            absent="without a log of clicks with times nobody knows how long after it a click came",
        ).find,
        "look at the clocks of the two services, and at the join: the key may be of another list",
    ),
    Row(
        "click_delay",
        Shares(
            "click_delay",
            "clicks come as late after their impression in all variants, but for what an effect "
            "does",
            "clicks are odd in one variant",
            {
                "late": "later than the attribution window",
                "same": "in the same millisecond as the impression",
                "unknown": "without a time",
            },
            "warn",
            columns=CLICK_COLUMNS,
        ).find,
        "look at clicks that are sent in batches, and at a default in place of their time",
        pairs=True,
    ),
    Row(
        "repeated_lists",
        Shares(
            "list_repeat",
            "lists are repeated as often in all variants",
            "one variant serves the same items in the same order again and again",
            {
                "one": "one and the same list",
                "of others": "lists that another unit gets too",
                "again": "the unit's last list once more",
            },
            "warn",
        ).find,
        "look for a cache without the user, or the time, in its key, and for a fallback in place "
        "of the ranker: the effect is of what was served",
        pairs=True,
    ),
    Row(
        "missing_clicks",
        audits.missing_clicks,
        "look whether this client logs clicks at all, and whether their key is that of the "
        "impressions, such as after a release",
        pairs=True,
    ),
    Row(
        "served",
        audits.served,
        "look at the latency of the variant's model and at when it was last deployed",
    ),
    Row(
        "silent_units",
        Shares(
            "silent",
            "",
            "exposed units without an impression",
            worst="warn",
            tells=True,
        ).find,
        "if an exposure is logged when a list is shown, look for lists that were not logged",
        pairs=True,
    ),
)

_OTHERS = (
    Row(
        "bots",
        audits.bots,
        "look for crawlers, monitors, test accounts, and ids that many people share (guests); "
        "leave them out alike in all variants, by what was known before the assignment",
    ),
    Row(
        "influence",
        influence.influence_check,
        "look whether they are people (bots, testers, shared ids); cap the metric ([[metrics]] "
        "cap), or filter bots alike in all variants",
        of="both",
    ),
    Row("split", split.change_checks, of="both"),
    Row("srm", split.srm_check, of="both"),
    Row("srm:", split.segment_checks, of="both"),
    Row(
        "crossover",
        rows.crossover,
        "look for ids that people share or lose (devices, cookies), for variants dealt out anew "
        "while the experiment ran, and compare cleaning.crossover",
        of="both",
    ),
    Row(
        "crossover_policies",
        rows.crossover_policies,
        "prefer the policy whose split is the planned one, and look for why units change variant",
        of="both",
    ),
    Row("assignment", rows.assignment, of="both"),
    Row(
        "pre_period",
        groups.before_checks,
        "look for an earlier experiment on the same units, and for units lost or added after "
        "their assignment; CUPED does not mend it",
        of="both",
    ),
    Row(
        groups.DENOMINATORS,
        groups.denominator_checks,
        "judge by totals per unit: the ratio decides only what that of its numerator says too",
        of="both",
    ),
)

_ROWS = (
    Row(
        "missing_days",
        rows.missing_days,
        "look for files that are missing or late, and whether the times of the log are read as "
        "they are meant",
    ),
    Row(
        "lacking_column",
        rows.lacking_columns,
        "complete the files, or leave their days out of [period]",
        of="both",
    ),
    Row(
        "impressions_outside_period",
        rows.outside_period,
        "are the times read as they are meant, and [period] right? If the log is that much "
        "longer, set [trust] outside_period = 1",
    ),
    Row(
        "duplicate",
        rows.duplicates,
        "look for events sent or loaded twice; cleaning.duplicate_key says what is equal",
        of="both",
    ),
    Row(
        "null_unit",
        rows.left_out("null_unit", "{} without a unit"),
        "look for people who are not signed in, and at the join that adds the id",
        of="both",
    ),
    Row(
        "null_time",
        rows.left_out("null_time", "{} without a time"),
        "look at the format of the times (`ts_format`) and at clients that send none",
    ),
    Row(
        "null_variant",
        rows.left_out("null_variant", "{} without a variant"),
        "look for events logged before the assignment, or by services that lack it",
        of="both",
    ),
    Row(
        "repeated_unit",
        rows.left_out("repeated_unit", "rows of units in several rows"),
        "make one row of each unit, or analyse the rows as a log of impressions",
        of="units",
    ),
    Row(
        "no_impression",
        rows.left_out("no_impression", "{} without their impression", "clicks"),
        "look for impressions lost on their way, and at the key of the join",
    ),
    Row(
        "late",
        rows.left_out("late", "{} later than the attribution window", "clicks"),
        "look at the clocks and at the attribution window ([logs.clicks])",
    ),
    Row(
        "ambiguous_impression",
        rows.left_out("ambiguous_impression", "{} that fit several impressions", "clicks"),
        "give clicks the id of their impression",
    ),
    Row("variant_spelling", rows.variant_spelling, of="both"),
)


def trust_checks(analysis: Analysis, aa: AAResult | None = None) -> tuple[Check, ...]:
    """Return every check, in the order of how much it can spoil."""
    replays = Row(
        groups.AA,
        lambda analysis: groups.aa_check(analysis, aa),
        "few units have most of the value: cap it (cap = 0.99), or test by "
        '[inference] resample = "permutation"',
        of="both",
    )
    audited = _AUDITS if analysis.aggregates.audits else (_NOT_AUDITED,)
    kinds = ("units", "both") if analysis.experiment.of_units else ("log", "both")
    found: list[Finding] = []
    for row in (*_HOURS, *audited, *_OTHERS, replays, *_ROWS):
        if row.of in kinds:
            own = row.findings(analysis)
            found += [audits.without_few(analysis, one) for one in own] if row.pairs else own
    return decided(found, analysis.experiment.trust)


def untrusted(
    analysis: Analysis, checks: Sequence[Check], aa: AAResult | None
) -> dict[str, Reason]:
    """Return metrics whose numbers a failed check, or A/A, touches, and which of the two."""
    names = [metric.name for metric in analysis.metrics]
    replays = next((check for check in checks if check.name == groups.AA), None)
    doubts: dict[str, Reason] = dict.fromkeys(
        groups.doubted(aa, replays, analysis.experiment.trust), "failed_aa"
    )
    failed = [check for check in checks if check.status == "fail"]
    touched = [name for name in names if any(check.touches([name]) for check in failed)]
    return doubts | dict.fromkeys(touched, "failed_trust_check")


def checked_metrics(experiment: Experiment) -> list[Metric]:
    """Return the metrics whose sums the checks need: those of the one pass over the log.

    Without any, the impressions per unit, which every log has.
    """
    metrics = [m for m in named_metrics(experiment) if m.source.per_unit and not reads_rows(m)]
    return metrics or [known_metrics(experiment)["impressions_per_user"]]


def without_replays(experiment: Experiment) -> Experiment:
    """Return the experiment without A/A replays, which cost most of a check of metrics."""
    trust = experiment.trust.model_copy(update={"aa_runs": 0})
    return experiment.model_copy(update={"trust": trust})


def check(experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates) -> CheckResult:
    """Return what the checks say without a scorecard.

    Args:
        experiment: The plan.
        metrics: Those that were computed. The checks name all of the scorecard that they touch.
        aggregates: What the logs add up to.
    """
    names = {metric.name for metric in metrics}
    others = [m for m in named_metrics(experiment) if m.name not in names]
    elsewhere = ("an analysis: the checks do not compute it",)
    refused = {m.name: elsewhere for m in others} | dict(aggregates.refused)
    analysis = Analysis(experiment, [*metrics, *others], replace(aggregates, refused=refused))
    no_replays = "A/A replays are of `abeval analyze` and `abeval aa`"
    checks = [
        replace(one, message=no_replays if one.name == groups.AA else masked(one.message))
        for one in trust_checks(analysis)
    ]
    return CheckResult(
        experiment=context.experiment_info(experiment, aggregates),
        trust=tuple(checks),
        accounting=context.accounting(aggregates),
        notes=tuple(map(masked, aggregates.notes)),
        split_days=split.split_days(experiment, aggregates),
        split_places=split.split_places(experiment, aggregates),
    )
