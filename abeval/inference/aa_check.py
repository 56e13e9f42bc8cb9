"""The trust check of A/A replays: does each metric's test keep its level on these logs?

`trust.py` asks for it with the replays of `aa.py`, and doubts the rows of the metrics that fail.
"""

from abeval.inference.aa import AA_UNITS
from abeval.inference.compare import Analysis
from abeval.results import Check
from abeval.results.aa import AAResult

AA_WARN, AA_FAIL = 0.01, 0.001


def aa_check(analysis: Analysis, aa: AAResult | None) -> Check:
    """Whether each metric's test keeps its level on these logs.

    It never fails as a whole, because one metric's test says nothing about the others; the rows of
    a metric that fails are untrusted.
    """
    if aa is None or not aa.metrics:
        message = f"no A/A replays: {_no_replays(analysis, aa)}"
        return Check("aa", "skipped", None, AA_FAIL, message)
    doubts, runs = aa.doubts(), aa.metrics[0].runs
    smallest = min(doubts.values())
    doubtful = [name for name, p_value in doubts.items() if p_value < AA_WARN]
    besides = _besides(aa)
    if not doubtful:
        message = f"{len(doubts)} metrics keep their level in {runs:,} A/A replays{besides}"
        return Check("aa", "pass", smallest, AA_FAIL, message)
    listed = ", ".join(f"{name} {aa[name].rejection_rate:.1%}" for name in doubtful)
    message = (
        f"tests at level {aa.alpha:.3g} reject more than {100 * aa.alpha:.3g}% of A/A replays "
        f"({listed}): few units have most of the value; cap it (cap = 0.99), or test by "
        f'[inference] resample = "permutation"{besides}'
    )
    return Check("aa", "warn", smallest, AA_FAIL, message)


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
