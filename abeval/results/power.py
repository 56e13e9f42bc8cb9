"""The smallest effect that an experiment can detect, or how long it needs.

`inference/power.py` fills it; `cli/power.py` prints it.
"""

from dataclasses import asdict, dataclass

import pandas as pd

from abeval.results.record import Record


@dataclass(frozen=True)
class Plan:
    """The units and days that one metric needs.

    Attributes:
        metric: Its id.
        baseline: Its value in control.
        sd: Standard deviation between units, of the value or of the linearised ratio; after
            CUPED where the experiment uses it.
        mde: Smallest relative effect detected with `power`: the one requested, or that of `days`.
        units_control: Units of control that this needs.
        units: Units of a variant.
        days: Days that this needs at the traffic of the log, from the start of the period.
        reason: Why a number is missing, else None.
    """

    metric: str
    baseline: float | None
    sd: float | None
    mde: float | None
    units_control: float | None
    units: float | None
    days: float | None
    reason: str | None


@dataclass(frozen=True)
class Plans(Record):
    """The plans of several metrics, at one level and power."""

    alpha: float
    power: float
    looks: str
    plans: tuple[Plan, ...]

    def to_frame(self) -> pd.DataFrame:
        """One row per metric."""
        return pd.DataFrame([asdict(plan) for plan in self.plans])
