"""Trust checks, A/A replays, balance before the period, and the decision on each variant.

`inference/trust.py`, `inference/verdict.py` and `inference/aa.py` fill these records. They are
fields of `Result`; `Balance` is one of `TimeResult`.
"""

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
        value: What was measured.
        threshold: Its limit.
        message: In words: what was measured, and what to look at.
    """

    name: str
    status: CheckStatus
    value: float | None
    threshold: float | None
    message: str


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
