"""Stretches of one traffic split as groups of entry days, which is how windows know units.

Within them units are compared, and they are weighed alike in all variants, as in the scorecard.
`time/analysis.py` asks for them; `time/axes.py` weighs.
"""

from collections.abc import Sequence

from abeval.logs.stretches import Stretches

Strata = tuple[tuple[int, ...], ...]
"""Places of entry days, in groups of one split each."""


def strata_of(stretches: Stretches, days: Sequence[str]) -> Strata:
    """The entry days of each stretch.

    A day within which the split changed, by a schedule, is a group of its own.

    Args:
        stretches: Those of the prepared logs; none where the split did not change.
        days: Every day, ISO.

    Example:
        >>> from abeval.logs.stretches import Stretch
        >>> first = Stretch("2026-01-01", "2026-01-02", {}, None)
        >>> second = Stretch("2026-01-03", "2026-01-03", {}, None)
        >>> strata_of((first, second), ["2026-01-01", "2026-01-02", "2026-01-03"])
        ((0, 1), (2,))
    """
    begins = [stretch.start for stretch in stretches[1:]]
    groups: dict[tuple[int, int], list[int]] = {}
    for place, day in enumerate(days):
        # Local times sort after their day, so that a day which a split divides has two numbers.
        at_dawn = sum(start <= day for start in begins)
        at_night = sum(start[:10] <= day for start in begins)
        groups.setdefault((at_dawn, at_night), []).append(place)
    return tuple(tuple(places) for places in groups.values())
