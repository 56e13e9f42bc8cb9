"""Trust checks, A/A replays, balance before the period, and the decision on each variant.

`inference/trust/`, `inference/verdict.py` and `inference/aa.py` fill these records. They are
fields of `Result`, as is `Influence` of `inference/trust/`; `Balance` is one of `TimeResult`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

CheckStatus = Literal["pass", "warn", "fail", "skipped"]
Decision = Literal["ship", "do_not_ship", "keep_running", "do_not_trust"]


@dataclass(frozen=True)
class Check:
    """One check of whether the numbers can be trusted.

    Attributes:
        name: Its id, such as `srm`.
        status: `pass`, `warn`, `fail`, or `skipped` if the logs cannot show it.
        value: What was measured: a p-value, adjusted over the tests of its family, or a number.
        threshold: From here on it fails: p-values below, numbers above; None if it never does.
        message: What was measured, in words.
        warn_threshold: From here on it warns.
        threshold_reason: Why the thresholds are what they are.
        remedy: What to do where it did not pass.
        metrics: Whose rows are not to be trusted where it fails; None for all of them.
        is_test: Whether the value is a p-value.

    Example:
        >>> lost = Check("clicks_late", "fail", 0.3, 0.2, "30 % late", metrics=("ctr",))
        >>> lost.touches(["sessions_per_user"]), lost.touches(["ctr"])
        (False, True)
    """

    name: str
    status: CheckStatus
    value: float | None
    threshold: float | None
    message: str
    warn_threshold: float | None = None
    threshold_reason: str = ""
    remedy: str = ""
    metrics: tuple[str, ...] | None = None
    is_test: bool = False

    def touches(self, metrics: Iterable[str]) -> bool:
        """Whether what it found concerns one of these metrics."""
        return self.metrics is None or not set(self.metrics).isdisjoint(metrics)


@dataclass(frozen=True)
class SplitDay:
    """Units that entered on one day, and the running test of the split.

    Attributes:
        day: The local date.
        units: Variant → units that entered on it.
        p_value: Of all units until then against the weights, valid however often it is read
            (Lindon & Malek 2022); it never rises.
    """

    day: str
    units: Mapping[str, int]
    p_value: float


@dataclass(frozen=True)
class SplitPlace:
    """How plainly the split differs between the cells of one dimension.

    Attributes:
        dimension: `entry day`, `entry hour`, `hour of the day`, or a segment.
        p_value: That the split is the same in all its cells, Holm over dimensions.
        cells: Their number.
        worst: The cell that fits the weights least.
        worst_p_value: Of its units, Holm over the cells of all dimensions.
        p_value_without: Of all other cells together against the weights.
    """

    dimension: str
    p_value: float
    cells: int
    worst: str
    worst_p_value: float
    p_value_without: float


@dataclass(frozen=True)
class Influence:
    """An effect with and without the units that move it most; they are counted, not named.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        units: So many units are left out, at most ten of both variants together.
        units_in_variant: How many of them are in `variant`; the others are in control.
        lift: The relative effect of all units, before any adjustment.
        lift_without: That of all other units.
        share: The share of the lift that the left out make: (lift - lift_without) / lift; None
            without a lift.
    """

    metric: str
    variant: str
    units: int
    units_in_variant: int
    lift: float
    lift_without: float
    share: float | None


@dataclass(frozen=True)
class AAMetric:
    """The A/A replay of one metric.

    Attributes:
        metric: Its id.
        runs: Replays.
        rejection_rate: Share of p-values below alpha; should be alpha.
        rejection_low: Lower end of its 95 % interval (Clopper and Pearson).
        rejection_high: Upper end.
        uniformity_p_value: Of uniform p-values (Kolmogorov and Smirnov).
    """

    metric: str
    runs: int
    rejection_rate: float
    rejection_low: float
    rejection_high: float
    uniformity_p_value: float


@dataclass(frozen=True)
class Balance:
    """One metric of one variant against control before the period.

    Attributes:
        metric: Its id.
        variant: The variant compared with control.
        control: Value in control, over the analysed units.
        treatment: Value in the variant.
        difference: `treatment - control`.
        p_value: Two-sided, of no difference.
        p_adjusted: Holm over metrics × variants.
        reason: Why it could not be compared, else None.
    """

    metric: str
    variant: str
    control: float | None
    treatment: float | None
    difference: float | None
    p_value: float | None
    p_adjusted: float | None
    reason: str | None


@dataclass(frozen=True)
class Verdict:
    """The decision on one variant, in one sentence."""

    variant: str
    decision: Decision
    sentence: str
