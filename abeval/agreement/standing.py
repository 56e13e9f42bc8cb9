"""Where an offline difference stands beside an effect online: gains, turned so that up is good."""

from typing import NamedTuple

from abeval.results.agreement import Standing
from abeval.results.effects import Row
from abeval.results.replay import PairRow

LOWER_IS_BETTER = frozenset({"log_loss", "ne", "brier", "mae", "rmse", "ece", "gini", "popularity"})
"""Offline metrics, without cut-off and definition, of which less is better."""

CALIBRATED_AT = {"q_ctr": 1.0}
"""Offline metrics that are best at a value."""


class Gain(NamedTuple):
    """An interval whose positive side is the good one; `reason` where there is none."""

    low: float | None
    high: float | None
    reason: str | None = None

    @property
    def sign(self) -> int:
        """1 for better, -1 for worse, 0 where zero is inside or the interval is missing."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    @property
    def strength(self) -> float | None:
        """Its middle in half-widths: beyond 1 it excludes zero.

        Example:
            >>> Gain(1.0, 3.0).strength
            2.0
        """
        if self.low is None or self.high is None or self.high <= self.low:
            return None
        return (self.low + self.high) / (self.high - self.low)


def standing(offline: Gain, online: Gain) -> Standing:
    """Compare two gains: conflict and agreement need both intervals to exclude zero.

    Example:
        >>> standing(Gain(0.01, 0.02), Gain(-0.3, -0.1)), standing(Gain(0.01, 0.02), Gain(-1, 1))
        ('conflict', 'offline only')
        >>> standing(Gain(None, None, "not_replayed"), Gain(0.1, 0.3))
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


def offline_gain(pair: PairRow | None) -> Gain:
    """Turn the difference of a pair so that more is better."""
    if pair is None:
        return Gain(None, None, "not_replayed")
    if pair.low is None or pair.high is None:
        return Gain(None, None, pair.reason or "no_interval")
    name = pair.metric.split("@")[0].split("[")[0]
    if name in CALIBRATED_AT:
        return _toward(CALIBRATED_AT[name], pair.value_control, pair.value, pair.low, pair.high)
    return _turned(pair.low, pair.high, name not in LOWER_IS_BETTER)


def online_gain(row: Row) -> Gain:
    """Turn the effect of a scorecard's row so that more is better."""
    low, high = row.lift_low, row.lift_high
    if low is None or high is None:
        low, high = row.difference_low, row.difference_high
    if row.status == "untrusted":
        return Gain(None, None, "untrusted")
    if low is None or high is None:
        return Gain(None, None, row.reason or "no_interval")
    if row.direction.startswith("toward "):
        goal = float(row.direction.removeprefix("toward "))
        return _toward(goal, row.control, row.treatment, low, high)
    return _turned(low, high, more_is_better(row))


def more_is_better(row: Row) -> bool:
    """Tell whether the good direction of an online metric, at its values, is up."""
    if not row.direction.startswith("toward "):
        return row.direction != "decrease"
    return (row.control or 0.0) < float(row.direction.removeprefix("toward "))


def _turned(low: float, high: float, more_is_better: bool) -> Gain:
    return Gain(low, high) if more_is_better else Gain(-high, -low)


def _toward(
    goal: float, control: float | None, treatment: float | None, low: float, high: float
) -> Gain:
    """Turn values on one side of their goal: more is better below it, less above it."""
    if control is None or treatment is None or (control - goal) * (treatment - goal) < 0:
        return Gain(None, None, "crosses_its_goal")
    return _turned(low, high, control < goal or treatment < goal)
