"""Hold the result of an off-policy evaluation, as frozen records.

`low` and `high` are the ends of the interval of the value before them.
"""

from typing import ClassVar

from abeval.results.record import Frozen, PageRecord, Tabled


class OffPolicyRow(Frozen):
    """The value of one estimator, or the reason why there is none.

    Attributes:
        value: Estimated clicks (rewards) per impression under the policy; None if refused.
        z: Distance from the realised value: `(value − realised) / sqrt(se² + se_realised²)`.
        reason: Code that says why the value or its interval is missing; else None.
    """

    estimator: str
    value: float | None = None
    se: float | None = None
    low: float | None = None
    high: float | None = None
    method: str | None = None
    z: float | None = None
    reason: str | None = None
    message: str | None = None


class Support(Frozen):
    """How well the log supports the policy.

    Attributes:
        mean_weight: Mean weight; about 1 if the propensities are right.
        mean_weight_p: Two-sided p-value of a mean weight of 1.
        ess: Effective sample size in impressions; `ess_units`: in units.
        accepted: Mean number of rows that rejection sampling would keep.
        unsupported: Share of the policy's probability that is on items never shown at the position;
            None if the policy is a column.
    """

    rows: int
    units: int
    clicks: int
    mean_weight: float
    mean_weight_se: float
    mean_weight_p: float
    max_weight: float
    weight_p99: float
    ess: float
    ess_share: float
    ess_units: float
    accepted: float
    unsupported: float | None
    reason: str | None
    message: str | None


class Realised(Frozen):
    """The target variant's own value in the same experiment, clustered by unit."""

    value: float
    se: float
    low: float
    high: float
    units: int


class OffPolicyResult(Tabled[OffPolicyRow], PageRecord):
    """The value of a policy, from the log of another variant.

    `support` is None if the propensities are not probabilities. `realised` is the target variant's
    own value; None unless the policy is a variant. `set_aside` counts impressions without an item.
    """

    ROWS: ClassVar = ("rows", "estimator")
    TABLES: ClassVar = "short:tabulate_off_policy"

    experiment: str
    source: str
    policy: str
    alpha: float
    support: Support | None
    realised: Realised | None
    rows: tuple[OffPolicyRow, ...]
    set_aside: int
    notes: tuple[str, ...]
