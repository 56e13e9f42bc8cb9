"""The checks that gate a verdict: can these numbers be read at all?"""

from collections.abc import Collection, Sequence
from datetime import date, timedelta

from abeval.aggregates.aggregates import WHOLE, Aggregates
from abeval.experiment.model import Experiment
from abeval.inference.aa import AAResult, replays
from abeval.inference.balance import balance, known_before
from abeval.inference.comparison import scales
from abeval.inference.segments import segment_srm
from abeval.metrics.definition import Metric
from abeval.results import Balance, Check, CheckStatus
from abeval.stats import srm
from abeval.stats.records import Refusal

SRM_WARN, SRM_FAIL = 0.01, 0.001
CROSSOVER_WARN, CROSSOVER_FAIL = 0.01, 0.10
ROWS_WARN, ROWS_FAIL = 0.02, 0.20
IMBALANCE_WARN, IMBALANCE_FAIL = 0.01, 0.001


AA_WARN, AA_FAIL = 0.01, 0.001

AA_UNITS = 200
"""Fewer units a variant than this are too few for large-sample tests to keep their level."""


def trust_checks(
    experiment: Experiment,
    metrics: Sequence[Metric],
    aggregates: Aggregates,
    aa: AAResult | None = None,
) -> tuple[Check, ...]:
    """Every check, in the order of how much it can spoil."""
    return (
        _srm(experiment, aggregates),
        *(_segment_srm(experiment, aggregates, name) for name in experiment.segments),
        _crossover(experiment, aggregates),
        *_balance(experiment, metrics, aggregates),
        _aa(aa),
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
    """Every metric before the experiment: were the groups equal? Holm over metrics × variants."""
    if experiment.pre_period is None:
        message = "no [pre_period], so whether the groups were equal before cannot be seen"
        return [Check("pre_period", "skipped", None, IMBALANCE_FAIL, message)]
    compared = [m for m in known_before(metrics) if m.name not in aggregates.refused]
    before = {
        metric.name: {
            variant: moments.pick(2, 3)
            for variant, moments in aggregates.of(metric.name, WHOLE, "", scales(metric)).items()
        }
        for metric in compared
    }
    return [_balance_check(row) for row in balance(experiment, compared, before)]


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


def aa_replays(
    experiment: Experiment, aggregates: Aggregates, exact: Collection[str] = ()
) -> AAResult | None:
    """A/A replays of the metrics, None where none were asked for or units are too few.

    Args:
        experiment: What was planned.
        aggregates: What the engine brought back.
        exact: Metrics that an exact test judges, which replays of a large-sample test say
            nothing about.
    """
    counts = {name: aggregates.units_of(name) for name in experiment.variants}
    sums = {name: one for name, one in aggregates.buckets.items() if name not in exact}
    if not sums or min(counts.values()) < AA_UNITS:
        return None
    return replays(experiment, sums, counts, experiment.trust.aa_runs)


def off_in_aa(aa: AAResult | None) -> frozenset[str]:
    """The metrics that are not to be trusted, because their own A/A tests are off."""
    doubts = {} if aa is None else aa.doubts()
    return frozenset(name for name, p_value in doubts.items() if p_value < AA_FAIL)


def _aa(aa: AAResult | None) -> Check:
    """Whether each metric's test keeps its level on these logs.

    It never fails the whole: what is wrong with one metric's test says nothing of another's. The
    rows of a metric that is off are untrusted.
    """
    if aa is None or not aa.metrics:
        message = f"no A/A replays: not asked for, or fewer than {AA_UNITS} units in a variant"
        return Check("aa", "skipped", None, AA_FAIL, message)
    doubts, runs = aa.doubts(), aa.metrics[0].runs
    smallest = min(doubts.values())
    doubtful = [name for name, p_value in doubts.items() if p_value < AA_WARN]
    if not doubtful:
        message = f"all {len(doubts)} metrics keep their level in {runs:,} A/A replays"
        return Check("aa", "pass", smallest, AA_FAIL, message)
    listed = ", ".join(f"{name} {aa[name].rejection_rate:.1%}" for name in doubtful)
    message = (
        f"tests at {aa.alpha:.3g} do not reject that share of A/A replays ({listed}): look for few "
        "units with most of the value (cap it), or a unit that is not the one randomised"
    )
    return Check("aa", "warn", smallest, AA_FAIL, message)


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
