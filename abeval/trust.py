"""The checks that gate a verdict: can these numbers be read at all?"""

from collections.abc import Sequence
from datetime import date, timedelta

from abeval.aggregates import WHOLE, Aggregates
from abeval.comparison import Rule, compare_moments, scales
from abeval.experiment.model import Experiment
from abeval.metrics import Metric
from abeval.records import Check, CheckStatus
from abeval.segments import segment_srm
from abeval.stats import srm
from abeval.stats.records import Refusal

SRM_WARN, SRM_FAIL = 0.01, 0.001
CROSSOVER_WARN, CROSSOVER_FAIL = 0.01, 0.10
ROWS_WARN, ROWS_FAIL = 0.02, 0.20
IMBALANCE_WARN, IMBALANCE_FAIL = 0.01, 0.001


def trust_checks(
    experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates
) -> tuple[Check, ...]:
    """Every check, in the order of how much it can spoil."""
    return (
        _srm(experiment, aggregates),
        *(_segment_srm(experiment, aggregates, name) for name in experiment.segments),
        _crossover(experiment, aggregates),
        *_balance(experiment, metrics, aggregates),
        _missing_days(experiment, aggregates),
        _share(aggregates, "impressions", "duplicate", "duplicate impressions"),
        _share(aggregates, "impressions", "null_unit", "impressions without a unit"),
        _share(aggregates, "impressions", "null_variant", "impressions without a variant"),
        _share(aggregates, "impressions", "unknown_variant", "impressions of unknown variants"),
        _share(aggregates, "clicks", "no_impression", "clicks without their impression"),
        _share(aggregates, "clicks", "late", "clicks later than the attribution window"),
        _share(aggregates, "clicks", "ambiguous_impression", "clicks that fit several impressions"),
    )


def _srm(experiment: Experiment, aggregates: Aggregates) -> Check:
    counts = dict(zip(aggregates.units["variant"], aggregates.units["units"], strict=True))
    observed = [int(counts.get(name, 0)) for name in experiment.variants]
    weights = [variant.weight for variant in experiment.variants.values()]
    try:
        found = srm.chi_square(observed, weights)
    except Refusal as refusal:
        return Check("srm", "fail", None, SRM_FAIL, f"sample ratio: {refusal}")
    shares = ", ".join(
        f"{name} {n:,}" for name, n in zip(experiment.variants, observed, strict=True)
    )
    if found.p_value >= SRM_WARN:
        return Check(
            "srm", "pass", found.p_value, SRM_FAIL, f"units as the weights expect: {shares}"
        )
    status: CheckStatus = "fail" if found.p_value < SRM_FAIL else "warn"
    message = (
        f"units do not follow the weights ({shares}; chi-square p = {found.p_value:.2g}): look for "
        "units lost after assignment, redirects, bots, or a filter that acts on one variant"
    )
    return Check("srm", status, found.p_value, SRM_FAIL, message)


def _segment_srm(experiment: Experiment, aggregates: Aggregates, name: str) -> Check:
    """The split of the worst cell, Holm over the cells: where a mismatch comes from."""
    check = f"srm:{name}"
    found = segment_srm(experiment, aggregates, name)
    if found is None:
        return Check(check, "skipped", None, SRM_FAIL, f"no units by {name}")
    worst = found.segments[0]
    if worst.p_adjusted >= SRM_WARN:
        message = f"units as the weights expect in each of {len(found.segments)} cells of {name}"
        return Check(check, "pass", worst.p_adjusted, SRM_FAIL, message)
    message = (
        f"{name} = {worst.segment!r} does not follow the weights (p = {worst.p_adjusted:.2g} after "
        f"Holm; without it, all other units together p = {worst.p_value_without:.2g})"
    )
    return Check(
        check, _graded(-worst.p_adjusted, -SRM_WARN, -SRM_FAIL), worst.p_adjusted, SRM_FAIL, message
    )


def _crossover(experiment: Experiment, aggregates: Aggregates) -> Check:
    units, crossovers = aggregates.facts["units"], aggregates.facts["crossovers"]
    share = crossovers / units if units else 0.0
    policy = {
        "first": "they stay with the first variant seen",
        "exclude": "they are excluded",
        "as_assigned": "they are analysed as assigned",
    }[experiment.cleaning.crossover]
    message = f"{crossovers:,} of {units:,} units were seen in more than one variant; {policy}"
    weights = {variant.weight for variant in experiment.variants.values()}
    if crossovers and experiment.cleaning.crossover == "exclude" and len(weights) > 1:
        message += "; excluding them biases an uneven split"
    status = _graded(share, CROSSOVER_WARN, CROSSOVER_FAIL)
    return Check("crossover", status, share, CROSSOVER_FAIL, message)


def _graded(value: float, warn: float, fail: float) -> CheckStatus:
    return "fail" if value >= fail else "warn" if value >= warn else "pass"


def _balance(
    experiment: Experiment, metrics: Sequence[Metric], aggregates: Aggregates
) -> list[Check]:
    """Goals before the experiment: were the groups equal? Bonferroni over goals × variants."""
    goals = [
        m
        for m in metrics
        if m.role == "goal" and m.name not in aggregates.refused and m.kind in ("mean", "ratio")
    ]
    if experiment.pre_period is None:
        message = "no [pre_period], so whether the groups were equal before cannot be seen"
        return [Check("pre_period", "skipped", None, IMBALANCE_FAIL, message)]
    tests = len(goals) * len(experiment.treatments)
    return [
        _balance_of(experiment, metric, variant, aggregates, tests)
        for metric in goals
        for variant in experiment.treatments
    ]


def _balance_of(
    experiment: Experiment, metric: Metric, variant: str, aggregates: Aggregates, tests: int
) -> Check:
    name = f"pre_period:{metric.name}:{variant}"
    arms = aggregates.of(metric.name, WHOLE, "", scales(metric))
    before = {v: m.pick(2, 3) for v, m in arms.items()}
    found = compare_moments(metric, before.get(experiment.control), before.get(variant), Rule())
    if found.effect is None:
        message = f"{metric.name} before the experiment cannot be compared: {found.reason}"
        return Check(name, "skipped", None, IMBALANCE_FAIL, message)
    p_value = min(1.0, found.effect.p_value * tests)
    status: CheckStatus = (
        "fail" if p_value < IMBALANCE_FAIL else "warn" if p_value < IMBALANCE_WARN else "pass"
    )
    words = "differed" if status != "pass" else "did not differ"
    message = (
        f"{metric.name} of {variant} {words} before the experiment: {found.effect.control:.4g} "
        f"against {found.effect.treatment:.4g} (p = {p_value:.2g})"
    )
    return Check(name, status, p_value, IMBALANCE_FAIL, message)


def _missing_days(experiment: Experiment, aggregates: Aggregates) -> Check:
    days = list(aggregates.days["day"]) if len(aggregates.days) else []
    if not days:
        message = "the log has no time, so days cannot be checked"
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
    return Check("missing_days", "warn", float(len(missing)), 0.0, message)


def _share(aggregates: Aggregates, log: str, reason: str, what: str) -> Check:
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
