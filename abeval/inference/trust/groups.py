"""Check groups: pre-period balance, denominators, A/A replays."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from abeval.aggregates.sums import BALANCE, KNOWN, ByStretch
from abeval.experiment.metrics import covariate_means
from abeval.experiment.model import Experiment
from abeval.experiment.sections import TrustOptions
from abeval.inference import clustered
from abeval.inference.aa import AA_UNITS
from abeval.inference.compare import Analysis, compare_total, per_unit
from abeval.inference.comparison import Arms, Comparison, Key, Rule, adjusted_p_values, picked
from abeval.inference.means_and_ratios import compare_within
from abeval.inference.trust.finding import Finding, skipped
from abeval.metrics.definition import Metric
from abeval.results import Balance, Check, codes
from abeval.results import format as fmt
from abeval.results.trust import AAResult

DENOMINATORS, AA = "denominators", "aa"

# Metrics with a smaller p-value are named in the message.
_NAMED = 0.01

# Reasons that stop the denominator's test but not the ratio's.
_NO_TEST = ("too_skewed", "split_changed")


def balance(
    experiment: Experiment,
    metrics: Sequence[Metric],
    before: Mapping[str, ByStretch],
) -> tuple[Balance, ...]:
    """Compare the groups before the period, Holm over metrics × variants.

    `before` has pre-period moments of (y, x) over the analysed units; absent units are zeros.
    """
    rule = Rule(experiment.alpha)
    comparisons = {
        (metric.name, variant): compare_within(
            metric, before[metric.name], Arms(experiment.control, variant), rule
        )
        for metric in metrics
        if metric.name in before
        for variant in experiment.treatments
    }
    adjusted = adjusted_p_values(comparisons)
    return tuple(
        Balance(
            metric=key[0],
            variant=key[1],
            **picked(comparison.numbers, "control", "treatment", "difference", "p_value"),
            p_adjusted=adjusted.get(key),
            reason=comparison.reason if comparison.effect is None else None,
        )
        for key, comparison in comparisons.items()
    )


def before_checks(analysis: Analysis) -> list[Finding]:
    """Test pre-period balance, in every metric with values from then."""
    experiment, before = analysis.experiment, _before(analysis)
    own = analysis.metrics if experiment.pre_period else ()
    rows = balance(experiment, [*own, *covariate_means(experiment)], before)
    lacks = "covariates in [logs.units]" if experiment.of_units else "[pre_period]"
    is_asked = bool(analysis.aggregates.days) and experiment.switchback is None
    remedy = "name a [pre_period], if the log goes back so far" * is_asked
    why = f"no {lacks}, so it is unknown whether the groups were equal before"
    none = skipped(why, remedy="" if experiment.of_units else remedy)
    return [_of_balance(row) for row in rows] or [none]


def _before(analysis: Analysis) -> dict[str, ByStretch]:
    """Return pre-period moments of every metric and covariate that has any.

    Scores are left out if variants serve different models: their scores always differ.
    """
    experiment, aggregates = analysis.experiment, analysis.aggregates
    models = {variant.model for variant in experiment.variants.values()}
    before = {
        metric.name: _picked(analysis.moments(metric), 2, 3)
        for metric in (analysis.metrics if experiment.pre_period else ())
        if metric.is_mean_or_ratio
        and not (len(models) > 1 and "score" in metric.needs)
        and metric.source.has_before
        and metric.name not in aggregates.refused
    }
    for metric in covariate_means(experiment):
        if aggregates.cells(metric.name, BALANCE):
            scales = metric.covariates[0].scale, 1.0
            before[metric.name] = _picked(aggregates.of(metric.name, BALANCE, "", scales), 0, 1)
    return before


def _picked(moments: ByStretch, *places: int) -> ByStretch:
    """Pick some variables of the moments, by index."""
    return [{name: one.pick(*places) for name, one in arm.items()} for arm in moments]


def _of_balance(row: Balance) -> Finding:
    name = f"pre_period:{row.metric}:{row.variant}"
    if row.p_adjusted is None:
        return skipped(f"{row.metric} before the experiment cannot be compared: {row.reason}", name)
    return Finding(row.p_value, name=name, slots=vars(row))


class Beside(NamedTuple):
    """A ratio with a moved denominator: its per-unit total, and both moves as text."""

    total: Comparison
    words: str


def denominator_checks(analysis: Analysis) -> list[Finding]:
    """Test whether a treatment moves the denominator of a goal or guardrail.

    If it does, the ratio compares different impressions in the two variants.
    """
    bottoms = _bottoms(analysis)
    p_values = adjusted_p_values(bottoms)
    unjudged = [
        f"{name} of {variant} ({codes.reason(bottom.reason, bottom.units_needed)})"
        for (name, variant), bottom in bottoms.items()
        if bottom.effect is None and bottom.reason in _NO_TEST
    ]
    what = "what ratios divide by cannot be compared for"
    unknown = [f"{what} {fmt.listing(unjudged)}"] if unjudged else []
    if not p_values:
        return [skipped(one) for one in unknown]
    moved = _moved(analysis, bottoms)
    words = [f"{name} of {variant}: {one.words}" for (name, variant), one in moved.items()]
    also = f"; {unknown[0]}" if unknown else ""
    return [
        Finding(
            min(p_values.values()),
            metrics=tuple(dict.fromkeys(name for name, _ in moved)),
            worst="warn",
            slots={"moved": "; ".join(words), "unknown": also},
        )
    ]


def moved_denominators(analysis: Analysis, checks: Sequence[Check]) -> dict[Key, Beside]:
    """Return the ratios whose denominator moved, if the check warns."""
    warns = any(check.name == DENOMINATORS and check.status == "warn" for check in checks)
    return _moved(analysis, _bottoms(analysis)) if warns else {}


def _bottoms(analysis: Analysis) -> dict[Key, Comparison]:
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
            sums = clustered.sums_per_unit(metric, aggregates, 1)
            bottom = clustered.compare_clusters(sums, experiment, aggregates, arms, rule)
        if 0 not in (bottom.control, bottom.treatment):
            bottoms[metric.name, variant] = bottom
    return bottoms


def _moved(analysis: Analysis, bottoms: Mapping[Key, Comparison]) -> dict[Key, Beside]:
    """Return denominators with small p-values; at least the smallest."""
    p_values = adjusted_p_values(bottoms)
    limit = max(_NAMED, min(p_values.values()))
    metrics = {metric.name: metric for metric in analysis.metrics}
    return {
        key: _beside(analysis, metrics[key[0]], key[1], bottoms[key])
        for key, p in p_values.items()
        if p <= limit
    }


def _beside(analysis: Analysis, metric: Metric, variant: str, bottom: Comparison) -> Beside:
    total = compare_total(analysis, metric, Arms(analysis.experiment.control, variant))
    top, *rest = (part.replace("Σ", "").strip() for part in metric.formula.split(" / ", 1))
    numbers, below = total.numbers, bottom.numbers
    moved = (below.difference or 0) / (below.control or 1)
    words = f"per unit, {(rest or [top])[0]} moved by {moved:+.1%}"
    shown = fmt.lift(numbers.lift, numbers.lift_low, numbers.lift_high)
    return Beside(total, f"{words}, {top} by {shown.text}" if shown else words)


def compare_bottoms(metric: Metric, moments: ByStretch, arms: Arms, rule: Rule) -> Comparison:
    """Compare the denominators of a ratio, as means per unit."""
    mean = replace(metric, kind="mean", value=metric.per, per=None, covariates=())
    bottoms = [{name: per_unit(one.pick(1, 0)) for name, one in arm.items()} for arm in moments]
    return compare_within(mean, bottoms, arms, rule)


def known_checks(analysis: Analysis) -> list[Finding]:
    """Test whether as many units have a value in each variant.

    If not, different units are compared in the two variants.
    """
    control, rule = analysis.experiment.control, Rule(analysis.experiment.alpha)
    found = []
    for metric, variant in analysis.rows:
        if metric.known is None or metric.name in analysis.aggregates.refused:
            continue
        name = f"missing_values:{metric.name}:{variant}"
        moments = _picked(analysis.aggregates.of(metric.name, KNOWN, "", (1.0, 1.0)), 0, 1)
        share = replace(metric, kind="mean", unit="share", value=None, per=None, covariates=())
        compared = compare_within(share, moments, Arms(control, variant), rule)
        numbers = compared.numbers
        if numbers.p_value is None:
            why = codes.reason(compared.reason, compared.units_needed)
            words = f"{metric.name}: units with a value cannot be compared: {why}"
            found.append(skipped(words, name))
            continue
        own = {"metric": metric.name, "base": control, "variant": variant}
        slots = {**vars(numbers), **own}
        found.append(Finding(numbers.p_value, metrics=(metric.name,), name=name, slots=slots))
    return found


def aa_check(analysis: Analysis, aa: AAResult | None) -> Finding:
    """Report whether each metric's test keeps its level in A/A replays.

    The check never fails as a whole, but rows of a failing metric are untrusted.
    """
    if aa is None or not aa.metrics:
        return skipped(f"no A/A replays: {_no_replays(analysis, aa)}")
    doubts, runs = aa.doubts(), aa.metrics[0].runs
    least = min(doubts.values())
    doubtful = [name for name, p_value in doubts.items() if p_value <= max(_NAMED, least)]
    listed = ", ".join(f"{name} {aa[name].rejection_rate:.1%}" for name in doubtful)
    heavy = [name for name in doubtful if analysis.aggregates.buckets[name].is_heavy]
    refused = (f"not replayed: {', '.join(aa.refused)}",) if aa.refused else ()
    besides = "".join(f"; {one}" for one in (*aa.notes, *refused))
    return Finding(
        least,
        metrics=tuple(doubtful),
        worst="warn",
        slots={
            "metrics": len(doubts),
            "runs": runs,
            "besides": besides,
            "listed": listed,
            "alpha": aa.alpha,
            "percent": 100 * aa.alpha,
            "heavy": ", ".join(heavy),
        },
        state="heavy" if heavy else "",
    )


def doubted(aa: AAResult | None, check: Check | None, options: TrustOptions) -> list[str]:
    """Find metrics whose test fails in A/A replays.

    The limit is this check's part of the budget for failures.
    """
    if aa is None or check is None or check.warn_threshold is None:
        return []
    # The check itself never fails; its limit scales as the budgets do.
    fail = check.warn_threshold * options.alpha_fail / options.alpha_warn
    return [name for name, p_value in aa.doubts().items() if p_value < fail]


def _no_replays(analysis: Analysis, aa: AAResult | None) -> str:
    """Say why no metric was replayed."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    if aa is not None:
        return ", ".join(f"{name}: {why}" for name, why in aa.refused.items())
    if not experiment.trust.aa_runs:
        return "[trust] aa_runs = 0"
    units, fewest = min((aggregates.units_of(name), name) for name in experiment.variants)
    if units < AA_UNITS:
        return f"{fewest} has {units:,} units, fewer than {AA_UNITS}"
    return "they are of `abeval analyze`" if aggregates.buckets else "no metric is a sum over units"
