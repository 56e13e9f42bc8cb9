"""Check the trigger: units that were not exposed must not differ between variants."""

from dataclasses import replace

from abeval.aggregates.aggregates import Aggregates
from abeval.aggregates.sums import NEVER_EXPOSED, UNEXPOSED, MomentsByPeriod, pool_moments
from abeval.inference.compare import Analysis
from abeval.inference.comparison import Arms, Comparison, Key, Rule, adjust_p_values
from abeval.inference.means_and_ratios import compare_within
from abeval.inference.trust.finding import RawCheck, TrustCheck, find_smallest
from abeval.results import format as fmt
from abeval.stats.moments import Moments

_SHARE = "share of units not exposed"


@TrustCheck(
    "untriggered",
    absent=(
        "the logs show no unit that was never exposed, or not the variant of at least 99 % of them"
    ),
    calm="{units:,} units that were never exposed show no difference between variants",
    alarm="units that were never exposed differ between variants: {listed}",
    remedy=(
        "look at what decides an exposure: it must be the same in every variant, and the treatment "
        "must not reach other units; until then analyze without [logs.exposures]"
    ),
)
def untriggered(analysis: Analysis) -> RawCheck | None:
    """Test whether never exposed units are as many, and alike, in all variants.

    Source: Deng & Hu (2015); Fabijan et al. (2019), Diagnosing sample ratio mismatch.
    """
    comparisons, units = _compare_never_exposed(analysis)
    p_values = adjust_p_values(comparisons)
    if not p_values:
        return None
    # A metric without a value among these units has no p-value.
    listed = [
        f"{name} of {variant} {comparisons[name, variant].treatment:.4g} against "
        f"{comparisons[name, variant].control:.4g} (p = {p_values[name, variant]:.2g})"
        for name, variant in find_smallest(p_values)
    ]
    slots = {"units": units, "listed": fmt.join_items(listed)}
    return RawCheck(min(p_values.values()), slots=slots)


def _compare_never_exposed(analysis: Analysis) -> tuple[dict[Key, Comparison], int]:
    """Compare the metrics of never exposed units, and their share of all units."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    rule, comparisons, units = Rule(experiment.alpha), dict[Key, Comparison](), 0
    for metric in analysis.metrics:
        if NEVER_EXPOSED not in aggregates.cells(metric.name, UNEXPOSED):
            continue
        never = analysis.moments(metric, UNEXPOSED, NEVER_EXPOSED)
        plain = replace(metric, covariates=(), test=None)
        share = replace(plain, kind="mean", unit="share", value=None, per=None)
        for variant in experiment.treatments:
            arms = Arms(experiment.control, variant)
            comparisons[metric.name, variant] = compare_within(plain, never, arms, rule)
            if not units:
                shares = _count_shares(aggregates, never, arms)
                comparisons[_SHARE, variant] = compare_within(share, shares, arms, rule)
        units = units or sum(of_variant.n for of_variant in pool_moments(never).values())
    return comparisons, units


def _count_shares(aggregates: Aggregates, never: MomentsByPeriod, arms: Arms) -> MomentsByPeriod:
    """Make moments of being never exposed, over the assigned units, by split period and variant.

    Units that come late are exposed less often, and after a ramp more of them are treatment's.
    """
    exposed = [split_period.units for split_period in aggregates.split_periods]
    shares = list[dict[str, Moments]]()
    for by_variant, units in zip(never, exposed or [aggregates.units], strict=True):
        counts = {n: (by_variant[n].n if n in by_variant else 0, units.get(n, 0)) for n in arms}
        shares.append({name: _share(*both) for name, both in counts.items() if any(both)})
    return shares


def _share(never: int, exposed: int) -> Moments:
    n = never + exposed
    return Moments.from_sums(n, [never, n], [[never, never], [never, n]], (1.0, 1.0))
