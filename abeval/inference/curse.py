"""The winner's curse: how much a test of this size overstates the effects that it finds.

`judge.py` adds its sentences to the notes of a result.
"""

from collections.abc import Iterator, Sequence

from abeval.inference.compare import Analysis
from abeval.results import Row
from abeval.results import format as fmt
from abeval.stats import decisions

ENOUGH_POWER = 0.8
"""A test with this power for the effect that it shows overstates it by at most an eighth."""


def winners_curse(analysis: Analysis, rows: Sequence[Row]) -> Iterator[str]:
    """A sentence for each goal that is significant, though the test has little power for it.

    Were the true effect as large as the estimate, significant estimates would still be larger on
    average (type M error; Gelman and Carlin 2014). With several looks, or with a prior, none:
    planned ends and posteriors have a correction of their own.
    """
    inference = analysis.experiment.inference
    if inference.looks != "fixed" or inference.prior is not None:
        return
    for row in rows:
        effect = analysis.comparisons[row.metric, row.variant].effect
        if row.role != "goal" or row.status not in ("better", "worse") or effect is None:
            continue
        if effect.se <= 0 or effect.difference == 0:
            continue
        errors = decisions.type_s_m(effect.difference, effect.se, analysis.experiment.alpha)
        if errors.power < ENOUGH_POWER:
            yield _sentence(row, errors)


def _sentence(row: Row, errors: decisions.Retrodesign) -> str:
    shown = fmt.lift(row.lift, row.lift_low, row.lift_high)
    size = "" if shown is None else f" of {shown.point}"
    return (
        f"Winner's curse: {row.metric} of {row.variant} is significant by little. If its true "
        f"effect were the estimate{size}, a test like this would find it in {errors.power:.0%}, "
        f"and then overstate it {errors.exaggeration:.2f} times on average: expect less."
    )
