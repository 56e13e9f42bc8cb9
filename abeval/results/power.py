"""What an experiment can see, or how long it needs."""

import json
from dataclasses import asdict, dataclass

import pandas as pd


@dataclass(frozen=True)
class Plan:
    """What one metric needs.

    Attributes:
        metric: Its id.
        baseline: Its value in control.
        sd: Standard deviation between units, of the value or of the linearised ratio; after
            CUPED where the experiment uses it.
        mde: Smallest relative effect found with `power`: the one asked for, or that of `days`.
        units_control: Units of control that this takes.
        units: Units of a variant.
        days: Days that this takes at the traffic seen, counted from the period's start.
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
class Plans:
    """The plans of several metrics, at one level and power."""

    alpha: float
    power: float
    looks: str
    plans: tuple[Plan, ...]

    def to_frame(self) -> pd.DataFrame:
        """One row per metric."""
        return pd.DataFrame([asdict(plan) for plan in self.plans])

    def to_json(self) -> str:
        """The same as JSON text."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
