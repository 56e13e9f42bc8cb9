"""What the columns of a table are, as its owner says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MetricSpec = str | Mapping[str, Any]
Metrics = Sequence[MetricSpec] | Mapping[str, str | Sequence[str] | Mapping[str, Any]]


@dataclass(frozen=True)
class TableOptions:
    """What the columns of a table are.

    Attributes:
        variant: The column of the variant.
        unit: The column of the unit; None where each row is a unit without an id.
        metrics: Columns (means), `name = expression`, or `name = sum / sum` for a ratio; a mapping
            of names to these, or to a pair of numerator and denominator; or entries as in
            `[[metrics]]`. None for every column of numbers.
        covariates: Columns, or expressions, that were measured before.
        segments: Columns, or names of segments → expressions.
        control: The variant that the others are compared with; None for one that is called so, or
            else the first by name.
        weights: Variant → intended share; None for equal ones, if the shares are near them.
        entries: More top-level entries of an experiment.
    """

    variant: str
    unit: str | None = None
    metrics: Metrics | None = None
    covariates: Sequence[str] = ()
    segments: Sequence[str] | Mapping[str, str] = ()
    control: str | None = None
    weights: Mapping[str, float] | None = None
    entries: Mapping[str, Any] = field(default_factory=dict)
