"""Compare an offline difference with an effect online, turned so that up is good."""

from typing import NamedTuple

from abeval.offline.metrics import find_direction
from abeval.results.agreement import Concordance
from abeval.results.effects import Row
from abeval.results.replay import PairRow


class SignedInterval(NamedTuple):
    """An interval whose positive side is the good one; `reason` where there is none."""

    low: float | None
    high: float | None
    reason: str | None = None

    @property
    def sign(self) -> int:
        """Return 1 for better, -1 for worse, else 0.

        It is 0 where the interval holds zero or is missing.
        """
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    @property
    def strength(self) -> float | None:
        """Return the middle of the interval over half its width.

        Beyond ±1 the interval excludes zero.

        Example:
            >>> SignedInterval(1.0, 3.0).strength
            2.0
        """
        if self.low is None or self.high is None or self.high <= self.low:
            return None
        return (self.low + self.high) / (self.high - self.low)


def find_standing(offline: SignedInterval, online: SignedInterval) -> Concordance:
    """Compare two gains: conflict and agreement need both intervals to exclude zero.

    Example:
        >>> offline = SignedInterval(0.01, 0.02)
        >>> find_standing(offline, SignedInterval(-0.3, -0.1))
        'conflict'
        >>> find_standing(offline, SignedInterval(-1, 1))
        'offline only'
        >>> find_standing(SignedInterval(None, None, "not_replayed"), SignedInterval(0.1, 0.3))
        'inconclusive'
    """
    if offline.reason or online.reason:
        return "inconclusive"
    match (offline.sign, online.sign):
        case (0, 0):
            return "inconclusive"
        case (0, _):
            return "online only"
        case (_, 0):
            return "offline only"
    return "agree" if offline.sign == online.sign else "conflict"


def orient_offline(pair: PairRow | None) -> SignedInterval:
    """Turn the difference of a pair so that more is better."""
    if pair is None:
        return SignedInterval(None, None, "not_replayed")
    if pair.low is None or pair.high is None:
        return SignedInterval(None, None, pair.reason or "no_interval")
    values = (pair.value_control, pair.value)
    return _orient_interval(find_direction(pair.metric), *values, pair.low, pair.high)


def orient_online(row: Row) -> SignedInterval:
    """Turn the effect of a scorecard's row so that more is better."""
    low, high = row.lift_low, row.lift_high
    if low is None or high is None:
        # A lift may lack an interval where control is near zero; the difference has its sign.
        low, high = row.difference_low, row.difference_high
    # Where a check of the data failed, the sign of an effect may be an artefact.
    if row.status == "untrusted":
        return SignedInterval(None, None, "untrusted")
    if low is None or high is None:
        return SignedInterval(None, None, row.reason or "no_interval")
    return _orient_interval(row.direction, row.control, row.treatment, low, high)


def find_sign(direction: str, value: float) -> int:
    """Return -1 where less of a metric is better at its value, else 1.

    Example:
        >>> find_sign("increase", 0.9), find_sign("decrease", 0.9), find_sign("toward 1", 0.9)
        (1, -1, 1)
    """
    if direction.startswith("toward "):
        # Below its goal more of the metric is better, above it less.
        return 1 if value < float(direction.removeprefix("toward ")) else -1
    return -1 if direction == "decrease" else 1


def _orient_interval(
    direction: str, control: float | None, treatment: float | None, low: float, high: float
) -> SignedInterval:
    """Turn an interval so that more is better."""
    if direction.startswith("toward "):
        goal = float(direction.removeprefix("toward "))
        # On the two sides of a goal the same change is better and worse.
        if control is None or treatment is None or (control - goal) * (treatment - goal) < 0:
            return SignedInterval(None, None, "crosses_its_goal")
    # Where less is better, the ends change sign and so their places.
    is_turned = find_sign(direction, min(control or 0.0, treatment or 0.0)) < 0
    return SignedInterval(-high, -low) if is_turned else SignedInterval(low, high)
