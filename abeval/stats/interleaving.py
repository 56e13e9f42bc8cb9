"""Interleaving: which of two rankings do users prefer when both are mixed into one list?

For your own numbers (docs/statistics.md): no analysis calls it.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from abeval.stats.distributions import check_alpha
from abeval.stats.records import Refusal


class Preference(NamedTuple):
    """A preference of B over A.

    Attributes:
        delta: `(wins_b + ties / 2) / users - 1/2`, in [-1/2, 1/2].
        low: Lower end of its interval, with the number of ties as it is.
        high: Upper end.
        z: Normal approximation of the sign test.
        p_value: Exact two-sided sign test over users without a tie.
        users: Users, ties included.
    """

    delta: float
    low: float
    high: float
    z: float
    p_value: float
    users: int


class Wins(NamedTuple):
    """Users counted by the ranking they prefer.

    Attributes:
        a: Users with more credited clicks on A.
        b: Users with more on B.
        ties: Users with as many on both, clicks or none.
    """

    a: int
    b: int
    ties: int


def wins(clicks_a: ArrayLike, clicks_b: ArrayLike) -> Wins:
    """Count each user once, for the ranking whose items got more of their clicks.

    Args:
        clicks_a: Clicks on items drafted by A, per user, shape (users,).
        clicks_b: Clicks on items drafted by B, shape (users,).

    Returns:
        Users per outcome. The user is the unit: a user's clicks or sessions are alike.

    Raises:
        Refusal: `not_applicable` for shapes that differ; `not_finite`.

    Source:
        Radlinski, Kurup & Joachims (CIKM 2008).

    Example:
        >>> wins([2, 0, 1], [1, 3, 1])
        Wins(a=1, b=1, ties=1)
    """
    a, b = np.asarray(clicks_a, dtype=float), np.asarray(clicks_b, dtype=float)
    if a.shape != b.shape or a.ndim != 1:
        raise Refusal("not_applicable", "one count of clicks per user and ranking")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise Refusal("not_finite", "clicks must be finite")
    return Wins(int(np.sum(a > b)), int(np.sum(b > a)), int(np.sum(a == b)))


def team_draft(wins_a: int, wins_b: int, ties: int, alpha: float = 0.05) -> Preference:
    """Test the preference of users in a team-draft interleaving.

    Args:
        wins_a: Users who prefer A.
        wins_b: Users who prefer B.
        ties: Users who prefer neither; they dilute delta but not the test.
        alpha: Level of the interval, Clopper-Pearson on the users without a tie.

    Returns:
        Preference for B, its interval and the sign test.

    Raises:
        Refusal: `too_few_units` without a user who prefers either; `not_applicable` for negative
            counts.

    Source:
        Radlinski, Kurup & Joachims (CIKM 2008); Chapelle, Joachims, Radlinski & Yue (TOIS 2012).

    Example:
        >>> preference = team_draft(412, 468, 120)
        >>> round(preference.delta, 3), round(preference.p_value, 4)
        (0.028, 0.0637)
    """
    check_alpha(alpha)
    if min(wins_a, wins_b, ties) < 0:
        raise Refusal("not_applicable", "counts of users cannot be negative")
    decided = wins_a + wins_b
    if decided == 0:
        raise Refusal("too_few_units", "no user preferred either ranking")
    users = decided + ties
    low = float(special.betaincinv(wins_b, wins_a + 1, alpha / 2)) if wins_b else 0.0
    high = float(special.betaincinv(wins_b + 1, wins_a, 1 - alpha / 2)) if wins_a else 1.0
    share = decided / users
    # Binomial with probability one half: both tails are alike, so the smaller is doubled.
    p_value = min(1.0, 2 * float(special.bdtr(min(wins_a, wins_b), decided, 0.5)))
    return Preference(
        (wins_b + ties / 2) / users - 0.5,
        share * (low - 0.5),
        share * (high - 0.5),
        (wins_b - wins_a) / math.sqrt(decided),
        p_value,
        users,
    )
