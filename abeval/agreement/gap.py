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

    Where offline differs, the gap closes as the difference reaches zero. Where only online differs,
    nobody can say how far it closes, but only a move towards the sign online closes it. Without a
    gap there is no share. Both differences are of a metric of which more is better.
    """
    if case.gap is not None and case.gap.standing == "online only":
        return None if (without - before) * (case.gap.online_strength or 0.0) > 0 else 0.0
    return _share(without - before, -before) if _offline_differs(case) else None


def closed_online(case: Case, before: float, without: float) -> float | None:
    """The share of the gap that closes if an effect is not `before` but `without`.

    Where offline differs, the gap closes as the effect reaches the sign that the models have there;
    where only online differs, as it reaches zero. Both effects are of a metric of which more is
    better.
    """
    if case.gap is not None and case.gap.standing == "online only":
        return _share(without - before, -before)
    if not _offline_differs(case):
        return None
    return _share(without - before, without if without * offline_sign(case) > 0 else -before)


def _offline_differs(case: Case) -> bool:
    return case.gap is not None and case.gap.standing in ("conflict", "offline only")


def _share(moved: float, whole: float) -> float:
    """A share from 0 to 1 of a change in the direction of `whole`.

    Example:
        >>> _share(0.5, 2.0), _share(3.0, 2.0), _share(-1.0, 2.0)
        (0.25, 1.0, 0.0)
    """
    return min(max(moved / whole, 0.0), 1.0) if whole else 0.0
