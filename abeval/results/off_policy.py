"""What an off-policy evaluation gives: frozen records, as a frame and as JSON."""

import json
from dataclasses import asdict, dataclass, fields

import pandas as pd


@dataclass(frozen=True)
class OffPolicyRow:
    """One estimator's answer.

    Attributes:
        estimator: Id with its options, such as `clipped_ips[10]`.
        value: Clicks per impression that the policy would have had, None where refused.
        se: Standard error, None where unknown.
        low: Lower end of the interval.
        high: Upper end.
        method: Id of the interval's method.
        z: Against the realised value: `(value − realised) / sqrt(se² + se_realised²)`.
        reason: Code of why the value, or only its interval, is missing, else None.
        message: The same in words.
    """

    estimator: str
    value: float | None
    se: float | None
    low: float | None
    high: float | None
    method: str | None
    z: float | None
    reason: str | None
    message: str | None


@dataclass(frozen=True)
class Support:
    """What the log has to say about the policy.

    Attributes:
        rows: Impressions of the log that were used.
        units: Units they belong to.
        clicks: Impressions with a click.
        mean_weight: Should be 1.
        mean_weight_se: Its standard error, clustered by unit.
        mean_weight_p: Two-sided p-value of 1.
        max_weight: The largest weight.
        weight_p99: The 99th percentile of the weights.
        ess: Effective sample size of the impressions.
        ess_share: `ess / rows`.
        ess_units: Effective number of units.
        accepted: Rows that rejection sampling would keep on average.
        unsupported: Share of the policy's probability on items never shown at the position; None
            where only a column tells the policy.
        reason: Why nothing can be estimated, else None.
        message: The same in words.
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


@dataclass(frozen=True)
class Realised:
    """What the target variant really had in the same experiment.

    Attributes:
        value: Clicks per impression.
        se: Standard error by units.
        low: Lower end of the interval.
        high: Upper end.
        units: Units behind it.
    """

    value: float
    se: float
    low: float
    high: float
    units: int


@dataclass(frozen=True)
class OffPolicyResult:
    """The value of a policy, from the log of another variant.

    Attributes:
        experiment: Its name.
        source: The variant whose log is used.
        policy: `variant NAME`, `column NAME` or `table`.
        alpha: Error rate of the intervals.
        support: Diagnostics, None where propensities are no probabilities.
        realised: The target variant's own value, None where the policy is no variant.
        rows: One per estimator.
        set_aside: Impressions of the source without an item, which no policy can be asked about.
        notes: What to know when reading the numbers.
    """

    experiment: str
    source: str
    policy: str
    alpha: float
    support: Support | None
    realised: Realised | None
    rows: tuple[OffPolicyRow, ...]
    set_aside: int
    notes: tuple[str, ...]

    def __getitem__(self, estimator: str) -> OffPolicyRow:
        """The row of an estimator."""
        found = next((row for row in self.rows if row.estimator == estimator), None)
        if found is None:
            raise KeyError(f"{estimator!r}; there are {', '.join(r.estimator for r in self.rows)}")
        return found

    def to_frame(self) -> pd.DataFrame:
        """One row per estimator."""
        names = [field.name for field in fields(OffPolicyRow)]
        return pd.DataFrame([asdict(row) for row in self.rows], columns=names)

    def to_json(self) -> str:
        """The result as JSON text; what is missing is null, with a reason."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
