"""How much of a gap between offline and online closes without a cause.

Offline, a cause may have moved the difference of the models; online, it may have moved the effect.
Both are shares from 0 to 1, so that causes of either kind can be ranked together.
"""

from abeval.agreement.case import Case
from abeval.agreement.standing import offline_gain


def offline_sign(case: Case) -> int:
    """Whether the candidate is better (1) or worse (-1) on control's traffic; 0 where unclear."""
    return 0 if case.gap is None else offline_gain(case.pair(case.gap.offline, case.control)).sign


def closed_offline(case: Case, before: float, without: float) -> float | None:
    """The share of the gap that closes if an offline difference is not `before` but `without`.

    In a conflict, the gap closes as the difference reaches the sign that it has online. Where only
    offline differs, it closes as the difference reaches zero. Without a gap there is no share.
    Both differences are of a metric of which more is better.
    """
    if case.gap is None or before == 0:
        return None
    if case.gap.standing == "conflict":
        return _share(without - before, -before)
    if case.gap.standing == "offline only":
        return _share(without - before, -before) if abs(without) < abs(before) else 0.0
    return None


def closed_online(case: Case, before: float, without: float) -> float | None:
    """The share of an effect that a cause takes away, if the effect without it is `without`.

    Counts only what moves towards the sign that the models have offline. Both effects are of a
    metric of which more is better.
    """
    sign = offline_sign(case)
    if case.gap is None or case.gap.standing not in ("conflict", "offline only") or not sign:
        return None
    if without * sign <= 0:
        return _share(without - before, -before) if before else None
    return _share(without - before, without)


def _share(moved: float, whole: float) -> float:
    """A share from 0 to 1 of a change in the direction of `whole`.

    Example:
        >>> _share(0.5, 2.0), _share(3.0, 2.0), _share(-1.0, 2.0)
        (0.25, 1.0, 0.0)
    """
    return min(max(moved / whole, 0.0), 1.0) if whole else 0.0
