"""Offline metrics by cut: models on parts of the traffic, of which a unit may be in several.

`offline/slices.py` fills these records; they are fields of `ReplayResult`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ReplayCutRow:
    """One metric of one model on the impressions of one cell of a cut.

    Attributes:
        cut: Name of the cut.
        cell: The cut's value.
        model: The model.
        traffic: The variant that served the units, or `pooled`.
        metric: Its id.
        value: The metric over the cell; None if it has no value, for `reason`.
        low: Lower end of its interval, clustered by unit.
        high: Upper end.
        units: Units of the traffic with an impression in the cell.
        counted: The denominator: impressions, clicks, pairs or units.
        reason: A code if the value or its interval is missing.
    """

    cut: str
    cell: str
    model: str
    traffic: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    units: int
    counted: float
    reason: str | None


@dataclass(frozen=True)
class ReplayCutPair:
    """A model compared with control's on the impressions of one cell, in pairs by unit.

    Attributes:
        cut: Name of the cut.
        cell: The cut's value.
        control: The model of control.
        model: The model that is compared with it.
        traffic: The variant that served the units, or `pooled`.
        metric: Its id.
        value_control: The metric of the model of control.
        value: The metric of the model.
        difference: `value - value_control`.
        low: Lower end of its interval.
        high: Upper end.
        p_value: Two-sided, of no difference.
        p_adjusted: Holm over the cells of the cut, for these models, traffic and metric.
        units: Units of the traffic with an impression in the cell.
        reason: A code if the difference or its interval is missing.
    """

    cut: str
    cell: str
    control: str
    model: str
    traffic: str
    metric: str
    value_control: float | None
    value: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_adjusted: float | None
    units: int
    reason: str | None
