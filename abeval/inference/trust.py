"""The checks that gate a verdict: can these numbers be read at all?

`judge.py` and `pairwise.py` hand it the analysis and put the checks into their results;
`verdict.py` decides by them; `time/analysis.py` uses `balance`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta

from abeval.aggregates.aggregates import Aggregates, ByStretch
from abeval.experiment.model import Experiment
from abeval.inference import denominator
from abeval.inference.aa_check import AA_FAIL, aa_check
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Arms, Reason, Rule, adjusted_p_values
from abeval.inference.split_checks import (
    SRM_FAIL,
    SRM_WARN,
    change_checks,
    split_status,
    srm_check,
    worst_cell,
)
from abeval.inference.stretches import compare_within
from abeval.metrics.definition import Metric, RowTerm, covariate_scales, own_terms
from abeval.results import Balance, Check, CheckStatus
from abeval.results.aa import AAResult
from abeval.stats import ratios
from abeval.stats.distributions import tail
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

CROSSOVER_WARN, CROSSOVER_FAIL = 0.01, 0.10
ROWS_WARN, ROWS_FAIL = 0.02, 0.20
REASSIGNED_WARN, REASSIGNED_FAIL = 0.001, 0.01
IMBALANCE_WARN, IMBALANCE_FAIL = 0.01, 0.001
DAYS_FAIL = 0.5
LACKING_WARN, LACKING_FAIL = 0.01, 0.001

Groups = tuple[Sequence[Metric], Mapping[str, ByStretch]]
"""Metrics, and metric → moments of (y, x) by stretch and variant."""


def trust_checks(analysis: Analysis, aa: AAResult | None = None) -> tuple[Check, ...]:
    """Every check, in the order of how much it can spoil."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    return (
        srm_check(experiment, aggregates),
        *change_checks(experiment, aggregates),
        *(_segment_srm(experiment, aggregates, name) for name in experiment.segments),
        _crossover(experiment, aggregates),
        _assignment(experiment, aggregates),
        *_balance_checks(analysis),
        *denominator.checks(analysis),
        aa_check(analysis, aa),
        *([] if experiment.of_units else [_missing_days(experiment, aggregates)]),
        *_lacking(experiment, aggregates),
        *_row_checks(experiment, aggregates),
    )


def _row_checks(experiment: Experiment, aggregates: Aggregates) -> list[Check]:
    """The shares of rows that were left out."""
    log = experiment.logs.rows_name
    rows = [
        _duplicates(experiment, aggregates),
        _share(aggregates, log, "null_unit", f"{log} without a unit"),
        *_time_checks(experiment, aggregates),
        _share(aggregates, log, "null_variant", f"{log} without a variant"),
    ]
    if experiment.of_units:
        return [*rows, _share(aggregates, log, "repeated_unit", "rows of units in several rows")]
    return [
        *rows,
        _share(aggregates, "clicks", "no_impression", "clicks without their impression"),
        _share(aggregates, "clicks", "late", "clicks later than the attribution window"),
        _share(aggregates, "clicks", "ambiguous_impression", "clicks that fit several impressions"),
    ]


def untrusted(
    metrics: Sequence[Metric], checks: Sequence[Check], aa: AAResult | None
) -> dict[str, Reason]:
    """Metrics whose numbers must not be trusted: all if a check failed, else by their A/A tests."""
    if any(check.status == "fail" for check in checks):
        return {metric.name: "failed_trust_check" for metric in metrics}
    doubts = {} if aa is None else aa.doubts()
    return {name: "failed_aa" for name, p_value in doubts.items() if p_value < AA_FAIL}


def _segment_srm(experiment: Experiment, aggregates: Aggregates, name: str) -> Check:
    """The split of the worst cell, Holm over the cells: where a mismatch comes from."""
    check = f"srm:{name}"
    worst = worst_cell(experiment, aggregates, name)
    if worst is None:
        return Check(check, "skipped", None, SRM_FAIL, f"no units by {name}")
    p_value = worst.p_value
    if p_value >= SRM_WARN:
        message = f"units match the weights in each of {worst.cells} cells of {name}"
        return Check(check, "pass", p_value, SRM_FAIL, message)
    message = (
        f"{name} = {worst.cell!r} does not match the weights (p = {p_value:.2g} after "
        f"Holm; without it, all other units together p = {worst.p_value_without:.2g})"
    )
    return Check(check, split_status(p_value), p_value, SRM_FAIL, message)


def _crossover(experiment: Experiment, aggregates: Aggregates) -> Check:
    units, crossovers = aggregates.facts["units"], aggregates.facts["crossovers"]
    share = crossovers / units if units else 0.0
    policy = {
        "first": "they stay with the first variant seen",
        "exclude": "they are excluded",
        "as_assigned": "they are analysed as assigned",
    }[experiment.cleaning.crossover]
    message = f"{crossovers:,} of {units:,} units were seen in more than one variant; {policy}"
    message += _ties(experiment, aggregates)
    weights = {variant.weight for variant in experiment.variants.values()}
    excluded = experiment.cleaning.crossover == "exclude" or aggregates.facts["tied_out"]
    if crossovers and excluded and len(weights) > 1:
        message += "; excluding them biases an uneven split"
    status = _graded(share, CROSSOVER_WARN, CROSSOVER_FAIL)
    return Check("crossover", status, share, CROSSOVER_FAIL, message)


def _ties(experiment: Experiment, aggregates: Aggregates) -> str:
    """What was done with units whose first variant the log does not tell."""
    tied, out = aggregates.facts["tied"], aggregates.facts["tied_out"]
    if not tied or experiment.cleaning.crossover == "exclude":
        return ""
    done = {0: "placed by hash", tied: "excluded"}.get(out, f"placed by hash, {out:,} excluded")
    return f", but {tied:,} have no first one (its time is equal or missing) and are {done}"


def _assignment(experiment: Experiment, aggregates: Aggregates) -> Check:
    """Whether the log's variants are those that the experiment's own rule gives."""
    name = "assignment"
    if experiment.assignment_rule is None:
        which = "one rule in [assignment] for all units" if experiment.schedule else "[assignment]"
        message = f"no {which}, so logged variants cannot be computed again"
        return Check(name, "skipped", None, REASSIGNED_FAIL, message)
    units = aggregates.facts.get("assigned", 0)
    if units == 0:
        message = "the log names no variants: they are computed by [assignment]"
        return Check(name, "skipped", None, REASSIGNED_FAIL, message)
    reassigned = aggregates.facts["reassigned"]
    share = reassigned / units
    status = _graded(share, REASSIGNED_WARN, REASSIGNED_FAIL)
    message = f"{reassigned:,} of {units:,} units are in another variant than [assignment] gives"
    if status != "pass":
        message += f" ({share:.2%}): `abeval audit` says which and since when"
    return Check(name, status, share, REASSIGNED_FAIL, message)


def _graded(value: float, warn: float, fail: float) -> CheckStatus:
    return "fail" if value >= fail else "warn" if value >= warn else "pass"


def balance(
    experiment: Experiment,
    metrics: Sequence[Metric],
    before: Mapping[str, ByStretch],
) -> tuple[Balance, ...]:
    """Compare the groups before the period: every metric and variant, Holm over all of them.

    Args:
        experiment: Its variants and level.
        metrics: In the order of the rows.
        before: Metric → moments of (y, x) before the period over the analysed units, by stretch
            and variant; zeros for units not seen then.
    """
    comparisons = {
        (metric.name, variant): compare_within(
            metric, moments, Arms(experiment.control, variant), Rule(experiment.alpha)
        )
        for metric in metrics
        if (moments := before.get(metric.name)) is not None
        for variant in experiment.treatments
    }
    adjusted = adjusted_p_values(comparisons)
    return tuple(
        Balance(
            metric=key[0],
            variant=key[1],
            control=comparison.control,
            treatment=comparison.treatment,
            difference=comparison.numbers.difference,
            p_value=comparison.numbers.p_value,
            p_adjusted=adjusted.get(key),
            reason=comparison.reason if comparison.effect is None else None,
        )
        for key, comparison in comparisons.items()
    )


def _balance_checks(analysis: Analysis) -> list[Check]:
    """Were the groups equal before the experiment, in every metric with values then?"""
    experiment = analysis.experiment
    if experiment.of_units:
        rows = balance(experiment, *_covariates(analysis))
    elif experiment.pre_period is not None:
        rows = balance(experiment, *_before(analysis))
    else:
        rows = ()
    if not rows:
        lacks = "covariates of a mean" if experiment.of_units else "[pre_period]"
        message = f"no {lacks}, so it is unknown whether the groups were equal before"
        return [Check("pre_period", "skipped", None, IMBALANCE_FAIL, message)]
    return [_balance_check(row) for row in rows]


def _before(analysis: Analysis) -> Groups:
    """Every metric with values before the period, and their moments by variant."""
    metrics = [
        metric
        for metric in analysis.metrics
        if metric.is_mean_or_ratio
        and metric.source.daily
        and metric.name not in analysis.aggregates.refused
    ]
    before = {
        metric.name: [
            {variant: moments.pick(2, 3) for variant, moments in one.items()}
            for one in analysis.moments(metric)
        ]
        for metric in metrics
    }
    return metrics, before


def _covariates(analysis: Analysis) -> Groups:
    """Every covariate of a table of units as a metric, and its moments by variant."""
    before: dict[str, ByStretch] = {}
    means = [m for m in analysis.metrics if m.kind == "mean" and m.covariates]
    for metric in means:
        moments = analysis.aggregates.with_covariates(metric.name, covariate_scales(metric))
        for k, term in enumerate(metric.covariates, start=2 + len(own_terms(metric))):
            if isinstance(term, RowTerm):
                columns = [
                    {name: one.pick(k, 1) for name, one in variants.items()} for variants in moments
                ]
                before.setdefault(term.expression, columns)
    return [Metric(name, "mean", f"Σ {name} / units") for name in before], before


def _balance_check(row: Balance) -> Check:
    name = f"pre_period:{row.metric}:{row.variant}"
    if row.p_adjusted is None:
        message = f"{row.metric} before the experiment cannot be compared: {row.reason}"
        return Check(name, "skipped", None, IMBALANCE_FAIL, message)
    status = _graded(-row.p_adjusted, -IMBALANCE_WARN, -IMBALANCE_FAIL)
    words = "did not differ" if status == "pass" else "differed"
    message = (
        f"{row.metric} of {row.variant} {words} before the experiment: {row.control:.4g} against "
        f"{row.treatment:.4g} (p = {row.p_adjusted:.2g} after Holm over metrics and variants)"
    )
    return Check(name, status, row.p_adjusted, IMBALANCE_FAIL, message)


def _missing_days(experiment: Experiment, aggregates: Aggregates) -> Check:
    days = list(aggregates.days["day"]) if len(aggregates.days) else []
    if not days:
        message = "the log has no timestamps, so days cannot be checked"
        return Check("missing_days", "skipped", None, 0.0, message)
    first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
    if experiment.period is not None:
        start, end = experiment.period.bounds
        first, last = start.date(), (end - timedelta(microseconds=1)).date()
    expected = {str(first + timedelta(days=i)) for i in range((last - first).days + 1)}
    missing = sorted(expected - set(days))
    if not missing:
        message = f"an impression on each of {len(expected)} days"
        return Check("missing_days", "pass", 0.0, 0.0, message)
    listed = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
    message = f"no impression on {len(missing)} of {len(expected)} days: {listed}"
    # Days after the last one with an impression may be yet to come.
    so_far = [day for day in missing if day < days[-1]]
    if len(so_far) > DAYS_FAIL * sum(day <= days[-1] for day in expected):
        message += "; are the times of the log read as they are meant?"
        return Check("missing_days", "fail", float(len(missing)), 0.0, message)
    return Check("missing_days", "warn", float(len(missing)), 0.0, message)


def _duplicates(experiment: Experiment, aggregates: Aggregates) -> Check:
    """The share of rows that repeat another, where they were looked for."""
    log = experiment.logs.rows_name
    if "duplicates" in aggregates.facts:
        return _share(aggregates, log, "duplicate", f"duplicate {log}")
    why = "rows have no id, so equal rows may be different people"
    if experiment.cleaning.duplicates == "unchecked":
        why = 'cleaning.duplicates is "unchecked"'
    message = f"duplicates were not looked for: {why}"
    return Check(f"{log}_duplicate", "skipped", None, ROWS_FAIL, message)


def _time_checks(experiment: Experiment, aggregates: Aggregates) -> list[Check]:
    """The shares of impressions without a time of the period; a table of units has no times."""
    if experiment.of_units:
        return []
    return [
        _share(aggregates, "impressions", "null_time", "impressions without a time"),
        _outside(experiment, aggregates),
    ]


def _outside(experiment: Experiment, aggregates: Aggregates) -> Check:
    """The share of the impressions in neither period: most of them, if times are misread."""
    limit = experiment.trust.outside_period
    check = _share(aggregates, "impressions", "outside_period", "impressions outside the period")
    if experiment.period is None:
        message = "no [period], so every day counts"
        return replace(check, status="skipped", value=None, threshold=limit, message=message)
    share = check.value or 0.0
    if limit == 1 or share <= limit:
        return replace(check, status="pass", threshold=limit)
    message = (
        f"{check.message}: are the times read as they are meant, and [period] right? If the log is "
        "that much longer, set [trust] outside_period = 1"
    )
    return replace(check, status="fail", threshold=limit, message=message)


def _lacking(experiment: Experiment, aggregates: Aggregates) -> list[Check]:
    """Do files that lack a column have another share of the impressions in some variant?"""
    checks = []
    for column, moments in aggregates.lacking().items():
        by_variant = {name: moments.get(name) for name in experiment.variants}
        control = by_variant[experiment.control]
        p_values = [_same_share(control, by_variant[variant]) for variant in experiment.treatments]
        p_value = min(1.0, len(p_values) * min(p_values))
        shares = ", ".join(f"{name} {_shown_share(m)}" for name, m in by_variant.items())
        differ = "differs between variants" if p_value < LACKING_WARN else "is alike in all"
        message = (
            f"some files lack the column {column!r}; their share of the impressions {differ}: "
            f"{shares} (p = {p_value:.2g}); the notes name the files"
        )
        status: CheckStatus = "fail" if p_value < LACKING_FAIL else "warn"
        checks.append(Check(f"lacking_column:{column}", status, p_value, LACKING_FAIL, message))
    return checks


def _shown_share(moments: Moments | None) -> str:
    if moments is None or not moments.mean[1]:
        return "no impressions"
    return f"{moments.mean[0] / moments.mean[1]:.1%}"


def _same_share(control: Moments | None, treatment: Moments | None) -> float:
    """Two-sided p-value of equal shares, clustered by unit; 0 for shares that differ for sure."""
    if control is None or treatment is None:
        return 1.0
    try:
        first, second = ratios.estimate(control), ratios.estimate(treatment)
    except Refusal:
        return 1.0
    difference, variance = second.value - first.value, first.variance + second.variance
    if variance == 0:
        return 1.0 if difference == 0 else 0.0
    return tail(difference / math.sqrt(variance)).p_value


def _share(aggregates: Aggregates, log: str, reason: str, what: str) -> Check:
    """The share of a log's rows that was left out for one reason."""
    name = f"{log}_{reason}"
    accounts = aggregates.accounts
    rows = accounts[accounts["log"] == log]
    read = int(rows["rows"].sum())
    if read == 0:
        return Check(name, "skipped", None, ROWS_FAIL, f"there is no {log} log")
    count = int(rows.loc[rows["reason"] == reason, "rows"].sum())
    share = count / read
    message = f"{count:,} of {read:,} {what} set aside ({share:.2%})"
    return Check(name, _graded(share, ROWS_WARN, ROWS_FAIL), share, ROWS_FAIL, message)
