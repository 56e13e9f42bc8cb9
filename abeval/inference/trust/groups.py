"""Check groups: pre-period balance, denominators, A/A replays."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from abeval.aggregates.sums import BALANCE, KNOWN, MomentsByPeriod, map_moments
from abeval.experiment.metrics import define_covariate_means
from abeval.experiment.model import Experiment
from abeval.experiment.sections import TrustOptions
from abeval.inference import clustered
from abeval.inference.aa import AA_UNITS
from abeval.inference.compare import Analysis, compare_total, drop_denominator
from abeval.inference.comparison import Arms, Comparison, Key, Rule, adjust_p_values
from abeval.inference.means_and_ratios import compare_within
from abeval.inference.trust.finding import RawCheck, TrustCheck, find_smallest, skip_check
from abeval.metrics.definition import Metric
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.trust import AAResult, Balance, Check

_DENOMINATORS, AA = "denominators", "aa"

# Reasons that stop the denominator's test but not the ratio's.
_NO_TEST = ("too_skewed", "split_changed")


def compare_treatments(
    experiment: Experiment, metric: Metric, moments: MomentsByPeriod
) -> dict[Key, Comparison]:
    """Compare every treatment with control on one metric, without adjustment."""
    control, rule = experiment.control, Rule(experiment.alpha)
    return {
        (metric.name, variant): compare_within(metric, moments, Arms(control, variant), rule)
        for variant in experiment.treatments
    }


def define_share(metric: Metric, name: str) -> Metric:
    """Define the share of units that have something of a metric."""
    plain = replace(metric, name=name, covariates=(), test=None)
    return replace(plain, kind="mean", unit="share", value=None, per=None)


def balance(
    experiment: Experiment,
    metrics: Sequence[Metric],
    before: Mapping[str, MomentsByPeriod],
) -> tuple[Balance, ...]:
    """Compare the groups before the period, Holm over metrics × variants.

    `before` has pre-period moments of (y, x) over the analysed units; absent units are zeros.
    """
    comparisons = dict[Key, Comparison]()
    for metric in (m for m in metrics if m.name in before):
        comparisons |= compare_treatments(experiment, metric, before[metric.name])
    adjusted = adjust_p_values(comparisons)
    return tuple(
        Balance(
            metric=metric_name,
            variant=variant,
            control=comparison.control,
            treatment=comparison.treatment,
            difference=comparison.effect and comparison.effect.difference,
            p_value=comparison.effect and comparison.effect.p_value,
            p_adjusted=adjusted.get((metric_name, variant)),
            reason=comparison.reason if comparison.effect is None else None,
        )
        for (metric_name, variant), comparison in comparisons.items()
    )


_BOTH = (
    "{control:.4g} against {treatment:.4g} (p = {p_adjusted:.2g} after Holm over metrics and "
    "variants)"
)


@TrustCheck(
    "pre_period",
    of="both",
    calm="{metric} of {variant} shows no difference before the experiment: " + _BOTH,
    alarm="{metric} of {variant} differed before the experiment: " + _BOTH,
    remedy=(
        "look for an earlier experiment on the same units, and for units lost or added after "
        "their assignment; CUPED does not mend it"
    ),
)
def pre_period(analysis: Analysis) -> list[RawCheck]:
    """Test pre-period balance, in every metric with values from then."""
    experiment, before = analysis.experiment, _collect_pre_period_moments(analysis)
    metrics = analysis.metrics if experiment.pre_period else ()
    rows = balance(experiment, [*metrics, *define_covariate_means(experiment)], before)
    lacks = "covariates in [logs.units]" if experiment.is_unit_table else "[pre_period]"
    is_asked = bool(analysis.aggregates.days) and experiment.switchback is None
    remedy = "name a [pre_period], if the log goes back so far" * is_asked
    why = f"no {lacks}, so it is unknown whether the groups were equal before"
    none = skip_check(why, remedy="" if experiment.is_unit_table else remedy)
    return [_balance_finding(row) for row in rows] or [none]


def _collect_pre_period_moments(analysis: Analysis) -> dict[str, MomentsByPeriod]:
    """Return pre-period moments of every metric and covariate that has any.

    Scores are left out if variants serve different models: their scores always differ.
    """
    experiment, aggregates = analysis.experiment, analysis.aggregates
    models = {variant.model for variant in experiment.variants.values()}
    before = {
        metric.name: map_moments(analysis.moments(metric), lambda moments: moments.pick(2, 3))
        for metric in (analysis.metrics if experiment.pre_period else ())
        if metric.is_mean_or_ratio
        and not (len(models) > 1 and "score" in metric.needs)
        and metric.source.has_before
        and metric.name not in aggregates.refused
    }
    for metric in define_covariate_means(experiment):
        if aggregates.cells(metric.name, BALANCE):
            scales = metric.covariates[0].scale, 1.0
            past = aggregates.find_moments(metric.name, BALANCE, "", scales)
            before[metric.name] = map_moments(past, lambda moments: moments.pick(0, 1))
    return before


def _balance_finding(row: Balance) -> RawCheck:
    name = f"pre_period:{row.metric}:{row.variant}"
    if row.p_adjusted is None:
        return skip_check(
            f"{row.metric} before the experiment cannot be compared: {row.reason}", name
        )
    return RawCheck(row.p_value, name=name, slots=vars(row))


class MovedDenominator(NamedTuple):
    """A ratio with a moved denominator: its per-unit total, and both moves as text."""

    total: Comparison
    text: str


@TrustCheck(
    _DENOMINATORS,
    of="both",
    calm="denominators of ratios show no difference{unknown}",
    alarm=(
        "the treatment moves the denominator of a ratio, so the ratio compares other rows than "
        "control's: {moved}{unknown}"
    ),
    remedy="judge by totals per unit: the ratio decides only what that of its numerator says too",
)
def denominators(analysis: Analysis) -> list[RawCheck]:
    """Test whether a treatment moves the denominator of a goal or guardrail.

    If it does, the ratio compares different impressions in the two variants.
    """
    bottoms = _compare_denominators(analysis)
    p_values = adjust_p_values(bottoms)
    unjudged = [
        f"{name} of {variant} ({codes.describe_reason(bottom.reason, bottom.units_needed)})"
        for (name, variant), bottom in bottoms.items()
        if bottom.effect is None and bottom.reason in _NO_TEST
    ]
    unknown = f"denominators of ratios cannot be compared for {fmt.join_items(unjudged)}"
    if not p_values:
        return [skip_check(unknown)] if unjudged else []
    moved = _find_moved(analysis, bottoms)
    texts = [
        f"{name} of {variant}: {denominator.text}" for (name, variant), denominator in moved.items()
    ]
    slots = {"moved": "; ".join(texts), "unknown": f"; {unknown}" if unjudged else ""}
    metrics = tuple(dict.fromkeys(name for name, _ in moved))
    return [RawCheck(min(p_values.values()), metrics=metrics, worst="warn", slots=slots)]


def find_moved_denominators(
    analysis: Analysis, checks: Sequence[Check]
) -> dict[Key, MovedDenominator]:
    """Return the ratios whose denominator moved, if the check warns."""
    warns = any(check.name == _DENOMINATORS and check.status == "warn" for check in checks)
    return _find_moved(analysis, _compare_denominators(analysis)) if warns else {}


def _compare_denominators(analysis: Analysis) -> dict[Key, Comparison]:
    """Compare the denominators of goals and guardrails, except zeros."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    rule, bottoms = Rule(experiment.alpha), dict[Key, Comparison]()
    for metric, variant in analysis.rows:
        is_judged = metric.role != "diagnostic" and metric.name not in aggregates.refused
        if metric.kind != "ratio" or not is_judged:
            continue
        arms = Arms(experiment.control, variant)
        if aggregates.clusters is None:
            bottom = compare_bottoms(metric, analysis.moments(metric), arms, rule)
        else:
            sums = clustered.read_sums_per_unit(metric, aggregates, 1)
            bottom = clustered.compare_clusters(sums, experiment, aggregates, arms, rule)
        if 0 not in (bottom.control, bottom.treatment):
            bottoms[metric.name, variant] = bottom
    return bottoms


def _find_moved(
    analysis: Analysis, bottoms: Mapping[Key, Comparison]
) -> dict[Key, MovedDenominator]:
    """Return denominators with small p-values; at least the smallest."""
    metrics = {metric.name: metric for metric in analysis.metrics}
    return {
        key: _describe_moved(analysis, metrics[key[0]], key[1], bottoms[key])
        for key in find_smallest(adjust_p_values(bottoms))
    }


def _describe_moved(
    analysis: Analysis, metric: Metric, variant: str, bottom: Comparison
) -> MovedDenominator:
    total = compare_total(analysis, metric, Arms(analysis.experiment.control, variant))
    top, *rest = (part.replace("Σ", "").strip() for part in metric.formula.split(" / ", 1))
    numbers, below = total.numbers, bottom.numbers
    moved = (below.difference or 0) / (below.control or 1)
    text = f"per unit, {(rest or [top])[0]} moved by {moved:+.1%}"
    lift = fmt.format_lift(numbers.lift, numbers.lift_low, numbers.lift_high)
    return MovedDenominator(total, f"{text}, {top} by {lift.text}" if lift else text)


def compare_bottoms(metric: Metric, moments: MomentsByPeriod, arms: Arms, rule: Rule) -> Comparison:
    """Compare the denominators of a ratio, as means per unit."""
    mean = replace(metric, kind="mean", value=metric.per, per=None, covariates=())
    bottoms = map_moments(moments, lambda both: drop_denominator(both.pick(1, 0)))
    return compare_within(mean, bottoms, arms, rule)


_WITH_VALUE = (
    "units with a value of {metric}: {base} {control:.2%}, {variant} {treatment:.2%} "
    "(p = {p_value:.2g})"
)


@TrustCheck(
    "missing_values:METRIC:VARIANT",
    of="both",
    calm=_WITH_VALUE,
    alarm=f"{_WITH_VALUE}: the units that are compared are not alike",
    remedy=(
        "look at why values are missing; where the treatment decides who has one, compare the "
        'share of units with a value as a metric, or all units by missing = "zero"'
    ),
)
def missing_values(analysis: Analysis) -> list[RawCheck]:
    """Test whether as many units have a value in each variant.

    If not, different units are compared in the two variants.
    """
    experiment, aggregates = analysis.experiment, analysis.aggregates
    comparisons = dict[Key, Comparison]()
    for metric in analysis.metrics:
        if metric.presence_terms is not None and metric.name not in aggregates.refused:
            presence = aggregates.find_moments(metric.name, KNOWN, "", (1.0, 1.0))
            moments = map_moments(presence, lambda moments: moments.pick(0, 1))
            share = define_share(metric, metric.name)
            comparisons |= compare_treatments(experiment, share, moments)
    findings = []
    for (metric_name, variant), compared in comparisons.items():
        name, numbers = f"missing_values:{metric_name}:{variant}", compared.numbers
        if numbers.p_value is None:
            why = codes.describe_reason(compared.reason, compared.units_needed)
            text = f"{metric_name}: units with a value cannot be compared: {why}"
            findings.append(skip_check(text, name))
            continue
        labels = {"metric": metric_name, "base": experiment.control, "variant": variant}
        slots = {**vars(numbers), **labels}
        findings.append(RawCheck(numbers.p_value, metrics=(metric_name,), name=name, slots=slots))
    return findings


def report_replays(analysis: Analysis, aa: AAResult | None) -> RawCheck:
    """Report whether each metric's test keeps its level in A/A replays.

    The check never fails as a whole, but rows of a failing metric are untrusted.
    """
    if aa is None or not aa.metrics:
        return skip_check(f"no A/A replays: {_explain_no_replays(analysis, aa)}")
    doubts, runs = aa.doubts(), max(row.runs for row in aa.metrics)
    doubtful = find_smallest(doubts)
    rates = ", ".join(f"{name} {aa[name].rejection_rate:.1%}" for name in doubtful)
    heavy = [name for name in doubtful if analysis.aggregates.buckets[name].is_heavy]
    refused = (f"not replayed: {', '.join(aa.refused)}",) if aa.refused else ()
    besides = "".join(f"; {note}" for note in (*aa.notes, *refused))
    return RawCheck(
        min(doubts.values()),
        metrics=tuple(doubtful),
        worst="warn",
        slots={
            "metrics": len(doubts),
            "runs": runs,
            "besides": besides,
            "listed": rates,
            "alpha": aa.alpha,
            "percent": 100 * aa.alpha,
            "heavy": ", ".join(heavy),
        },
        state="heavy" if heavy else "",
    )


aa_check = TrustCheck(
    AA,
    lambda analysis: report_replays(analysis, None),
    of="both",
    calm="{metrics} metrics keep their level in up to {runs:,} A/A replays{besides}",
    alarm=(
        "tests at level {alpha:.3g} reject more than {percent:.3g}% of A/A replays "
        "({listed}){besides}"
    ),
    remedy=(
        "no few units make most of the variance, so a cap would not help: test by [inference] "
        'resample = "permutation"'
    ),
    states={
        "heavy": {
            "remedy": (
                "few units make most of the variance of {heavy}: cap it (cap = 0.99), or test by "
                '[inference] resample = "permutation"'
            ),
        },
    },
)


def find_metrics_failing_aa(
    aa: AAResult | None, check: Check | None, options: TrustOptions
) -> list[str]:
    """Find metrics whose test fails in A/A replays.

    The limit is this check's part of the budget for failures.
    """
    if aa is None or check is None or check.warn_threshold is None:
        return []
    # The check itself never fails; its limit scales as the budgets do.
    fail = check.warn_threshold * options.alpha_fail / options.alpha_warn
    return [name for name, p_value in aa.doubts().items() if p_value < fail]


def _explain_no_replays(analysis: Analysis, aa: AAResult | None) -> str:
    """Say why no metric was replayed."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    if aa is not None:
        return ", ".join(f"{name}: {why}" for name, why in aa.refused.items())
    if not experiment.trust.aa_runs:
        return "[trust] aa_runs = 0"
    units, fewest = min((aggregates.count_units(name), name) for name in experiment.variants)
    if units < AA_UNITS:
        return f"{fewest} has {units:,} units, fewer than {AA_UNITS}"
    return "they are of `abeval analyze`" if aggregates.buckets else "no metric is a sum over units"
