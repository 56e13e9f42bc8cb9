"""The root of a function of one number, by Brent's method.

Intervals and critical values are roots. The steps are those of `scipy.optimize.brentq`, to the last
bit; importing SciPy's optimisers would take longer than most analyses spend on statistics.
"""

import math
from collections.abc import Callable


def brentq(
    of: Callable[[float], float],
    low: float,
    high: float,
    xtol: float = 2e-12,
    rtol: float = 2**-50,
) -> float:
    """Where a continuous function is 0, between two numbers at which it has different signs.

    Brent (1973): a step of the secant or of the inverse parabola, or else half of the bracket.

    Args:
        of: The function.
        low: One end of the bracket.
        high: The other end.
        xtol: The root may be so far off.
        rtol: And by this share of itself.

    Raises:
        ValueError: The function has the same sign at both ends.
        RuntimeError: The root is not near after 100 steps.

    Example:
        >>> round(brentq(lambda x: x * x - 2, 0.0, 2.0), 12)
        1.414213562373
    """
    before, here, other = float(low), float(high), 0.0
    f_before, f_here, f_other = of(before), of(here), 0.0
    if f_before == 0 or f_here == 0:
        return before if f_before == 0 else here
    if (f_before > 0) == (f_here > 0):
        raise ValueError(f"the function has the same sign at {low} and at {high}")
    last = step = 0.0
    for _ in range(100):
        if f_before != 0 and (f_before > 0) != (f_here > 0):
            other, f_other = before, f_before
            last = step = here - before
        if abs(f_other) < abs(f_here):
            before, here, other = here, other, here
            f_before, f_here, f_other = f_here, f_other, f_here
        least, half = (xtol + rtol * abs(here)) / 2, (other - here) / 2
        if f_here == 0 or abs(half) < least:
            return here
        tried = math.inf
        if abs(last) > least and abs(f_here) < abs(f_before):
            if before == other:
                tried = -f_here * (here - before) / (f_here - f_before)
            else:
                d_before = (f_before - f_here) / (before - here)
                d_other = (f_other - f_here) / (other - here)
                tried = -f_here * (f_other * d_other - f_before * d_before)
                tried /= d_other * d_before * (f_other - f_before)
        is_short = 2 * abs(tried) < min(abs(last), 3 * abs(half) - least)
        last, step = (step, tried) if is_short else (half, half)
        before, f_before = here, f_here
        here += step if abs(step) > least else math.copysign(least, half)
        f_here = of(here)
    raise RuntimeError(f"no root is near {here} after 100 steps")
