"""What was analysed: the experiment, its variants and metrics, and the rows of its logs.

`inference/context.py` fills these records; they are fields of `Result` (`results/analysis.py`).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class VariantInfo:
    """A variant: its intended share, the model it serves, and the units that were analysed."""

    name: str
    weight: float
    model: str | None
    units: int


@dataclass(frozen=True)
class ExperimentInfo:
    """The experiment; `family`, `looks` and `adjust` are as in its file."""

    name: str
    unit: str
    control: str
    timezone: str
    start: str | None
    end: str | None
    pre_start: str | None
    pre_end: str | None
    alpha: float
    variants: tuple[VariantInfo, ...]
    family: str = "holm"
    looks: str = "fixed"
    adjust: str = "none"


@dataclass(frozen=True)
class MetricInfo:
    """The definition of a metric."""

    name: str
    kind: str
    formula: str
    unit: str
    direction: str
    role: str
    margin: float | None
    margin_relative: bool | None


@dataclass(frozen=True)
class LeftOut:
    """Count of what a metric's definition leaves out in a variant, or counts as 0.

    Attributes:
        metric: The metric.
        variant: The variant.
        what: In words.
        count: How many.
        as_zero: Whether they count as 0; if so, a mean still divides by their units.
    """

    metric: str
    variant: str
    what: str
    count: int
    as_zero: bool = False


@dataclass(frozen=True)
class Account:
    """Rows of one log: `read = used + the sum of set_aside`."""

    log: str
    read: int
    used: int
    set_aside: tuple[tuple[str, int], ...]
