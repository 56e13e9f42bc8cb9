"""The check of A/A replays: does each metric's test keep its level on these logs?"""

from abeval.experiment.sections import TrustOptions
from abeval.inference.aa import AA_UNITS
from abeval.inference.compare import Analysis
from abeval.inference.trust.finding import Finding, Significance, Words, skipped
from abeval.results import Check
from abeval.results.trust import AAResult

NAME = "aa"
_DOUBT = 0.01
"""Metrics with a smaller p-value are named in the message."""


def aa_check(analysis: Analysis, aa: AAResult | None) -> Finding:
    """Whether each metric's test keeps its level on these logs.

    It never fails as a whole, because one metric's test says nothing about the others; the rows of
    a metric that fails are untrusted.
    """
    if aa is None or not aa.metrics:
        return skipped(NAME, f"no A/A replays: {_no_replays(analysis, aa)}")
    doubts, runs = aa.doubts(), aa.metrics[0].runs
    doubtful = [name for name, p_value in doubts.items() if p_value < _DOUBT]
    listed = ", ".join(f"{name} {aa[name].rejection_rate:.1%}" for name in doubtful)
    besides = _besides(aa)
    words = Words(
        f"{len(doubts)} metrics keep their level in {runs:,} A/A replays{besides}",
        f"tests at level {aa.alpha:.3g} reject more than {100 * aa.alpha:.3g}% of A/A replays "
        f"({listed}){besides}",
        "few units have most of the value: cap it (cap = 0.99), or test by "
        '[inference] resample = "permutation"',
    )
    return Significance(NAME, min(doubts.values()), words, metrics=tuple(doubtful), worst="warn")


def doubted(aa: AAResult | None, check: Check | None, options: TrustOptions) -> list[str]:
    """Metrics whose own test is off by so much that their rows are not to be trusted.

    Args:
        aa: The replays.
        check: The check of them, whose family has its part of the budget.
        options: With the budgets of warnings and of failures.
    """
    if aa is None or check is None or check.warn_threshold is None:
        return []
    fail = check.warn_threshold * options.alpha_fail / options.alpha_warn
    return [name for name, p_value in aa.doubts().items() if p_value < fail]


def _besides(aa: AAResult) -> str:
    """What is not replayed, and how the tests that are replayed differ from those of the rows."""
    listed = (f"not replayed: {', '.join(aa.refused)}",) if aa.refused else ()
    return "".join(f"; {one}" for one in (*aa.notes, *listed))


def _no_replays(analysis: Analysis, aa: AAResult | None) -> str:
    """Why no metric was replayed."""
    experiment, aggregates = analysis.experiment, analysis.aggregates
    if aa is not None:
        return ", ".join(f"{name}: {why}" for name, why in aa.refused.items())
    if not experiment.trust.aa_runs:
        return "[trust] aa_runs is 0"
    units, fewest = min((aggregates.units_of(name), name) for name in experiment.variants)
    if units < AA_UNITS:
        return f"{fewest} has {units:,} units, fewer than {AA_UNITS}"
    if aggregates.buckets:
        return "they are of `abeval analyze`"
    return "no metric is a sum over units"
