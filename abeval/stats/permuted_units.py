"""The studentised permutation test of two variants, where the values of single units are known.

If nothing differs, every split of the units is as likely as the one at hand, so the test keeps its
level with however few units and whatever values. Over its own standard error the difference also
keeps it, with more units, where only the means are the same (Janssen 1997; Chung and Romano 2013).

`split_moments.py` asks for the p-values of one hypothesis.
"""

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from abeval.stats.moments import Units
from abeval.stats.records import Floats
from abeval.stats.resampling import SEED, batches

DRAWS = 4_999

_ROUNDING = 1e-9


class _Drawn(NamedTuple):
    """Of the units that each draw puts into the treatment, by where they are from.

    Attributes:
        moved: How many are from the treatment.
        sums: Of the distances of control's units, and of the treatment's.
        squares: Of their squares.
    """

    moved: Floats
    sums: Floats
    squares: Floats


def p_values(
    control: Units, treatment: Units, ratio: float, difference: float
) -> tuple[float, float]:
    """P-values of a lower and of a higher treatment.

    Args:
        control: Distances of control's units from its value.
        treatment: The same of the treatment.
        ratio: What the treatment's values are divided by.
        difference: Of both values, once that is done.

    Example:
        >>> few, more = Units(np.array([-1.0, 1.0]), np.array([4, 4])), np.array([-2.0, 2.0])
        >>> lower, upper = p_values(few, Units(more, np.array([4, 4])), 1.0, 3.0)
        >>> lower > 0.9, upper < 0.05
        (True, True)
    """
    moved, (own, others), squares = _drawn(control, treatment)
    n, m = int(control.counts.sum()), int(treatment.counts.sum())
    spread = [float(one.counts @ one.values**2) for one in (control, treatment)]
    # All distances from control's value: of the treatment's units, d / ratio + difference.
    total = difference * m
    whole = spread[0] + spread[1] / ratio**2 + difference**2 * m
    drawn = own + others / ratio + difference * moved
    of_drawn = squares[0] + squares[1] / ratio**2
    of_drawn += 2 * difference * others / ratio + difference**2 * moved
    first, second = drawn / m, (total - drawn) / n
    variance = (of_drawn - m * first**2) / (m - 1) / m
    variance += (whole - of_drawn - n * second**2) / (n - 1) / n
    t = (first - second) / np.sqrt(np.maximum(variance, _ROUNDING * whole / (n + m) ** 2))
    own_variance = spread[0] / (n - 1) / n + spread[1] / ratio**2 / (m - 1) / m
    observed = difference / np.sqrt(own_variance)
    near = _ROUNDING * max(1.0, abs(observed))
    lower, upper = np.sum(t <= observed + near), np.sum(t >= observed - near)
    return (1 + int(lower)) / (DRAWS + 1), (1 + int(upper)) / (DRAWS + 1)


@lru_cache(maxsize=8)
def _drawn(control: Units, treatment: Units) -> _Drawn:
    random, m = np.random.default_rng(SEED), int(treatment.counts.sum())
    counts = np.concatenate([control.counts, treatment.counts])
    values = np.concatenate([control.values, treatment.values])
    of_control = (np.arange(counts.size) < control.counts.size).astype(float)
    sums = [one * of for one in (values, values**2) for of in (of_control, 1 - of_control)]
    columns = np.stack([1 - of_control, *sums], axis=1)
    # Drawing a unit takes an eighth of the time of drawing how many have a value.
    by_unit = min(m, counts.sum() - m) < 8 * counts.size
    way: Literal["count", "marginals"] = "count" if by_unit else "marginals"
    moved, *of_drawn = np.vstack(
        [
            random.multivariate_hypergeometric(counts, m, some, way).astype(float) @ columns
            for some in batches(DRAWS)
        ]
    ).T
    return _Drawn(moved, np.array(of_drawn[:2]), np.array(of_drawn[2:]))
