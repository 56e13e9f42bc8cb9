"""Hold trust checks, A/A replays, assignment audits and verdicts."""

import math
from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal

from abeval.assignment import SUB_BUCKETS
from abeval.results.effects import SegmentContrast, VariantRecord
from abeval.results.record import DrawnRecord, Frozen, Tabled

CheckStatus = Literal["pass", "warn", "fail", "skipped"]
Decision = Literal["ship", "do_not_ship", "keep_running", "do_not_trust", "draft"]


class Check(Frozen):
    """One check of whether the numbers can be trusted.

    Attributes:
        status: `pass`, `warn` or `fail`; `skipped` if the logs do not allow the check.
        value: The measured number, or the p-value, adjusted over the tests of its family.
        threshold: The check fails if its p-value is below this, or its number above; None if it
            never fails.
        threshold_reason: Why the thresholds have these values.
        remedy: What to do if the check does not pass; empty if nobody can make the check with this
            data.
        metrics: Metrics whose rows cannot be trusted if the check fails; None for all metrics.

    Example:
        >>> lost = Check("clicks_set_aside", "fail", 0.3, 0.2, "30 % late", metrics=("ctr",))
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
        """Tell whether the check concerns any of these metrics."""
        return self.metrics is None or not set(self.metrics).isdisjoint(metrics)


def select_checks(checks: Iterable[Check], *statuses: CheckStatus) -> list[Check]:
    """List the checks with these statuses, in the order of the statuses.

    Example:
        >>> checks = [Check(name, name, None, None, "") for name in ("pass", "warn", "fail")]
        >>> [check.name for check in select_checks(checks, "fail", "warn")]
        ['fail', 'warn']
    """
    selected = (check for check in checks if check.status in statuses)
    return sorted(selected, key=lambda check: statuses.index(check.status))


class SplitDay(Frozen):
    """Units that entered on one day, and the running test of the split.

    `p_value` compares all units until then with the weights. It is valid however often it is read
    (Lindon & Malek 2022), and it never rises.
    """

    day: str
    units: Mapping[str, int]
    p_value: float


class SplitPlace(Frozen):
    """How strongly the split differs between the cells of one dimension.

    Attributes:
        dimension: `entry day`, `entry hour`, `hour of the day`, or a segment.
        p_value: P-value of the same split in all cells, after Holm over dimensions.
        worst_p_value: P-value of the units in the worst cell, after Holm over the cells of all
            dimensions.
        p_value_without: P-value of all other cells together against the weights.
    """

    dimension: str
    p_value: float
    cells: int
    worst: str
    worst_p_value: float
    p_value_without: float


class Influence(VariantRecord):
    """An effect with and without the units that move it most.

    Attributes:
        units: Number of units left out, at most ten in both variants together.
        units_in_variant: Number of these units in `variant`; the others are in control.
        lift: The relative effect of all units, before any adjustment.
        share: Share of the lift that is due to the units left out: (lift - lift_without) / lift.
    """

    units: int
    units_in_variant: int
    lift: float
    lift_without: float
    share: float | None


class AAMetric(Frozen):
    """The A/A replay of one metric.

    `rejection_rate` is the share of p-values below alpha, and should be alpha. `uniformity_p_value`
    tests whether the p-values are uniform (Kolmogorov and Smirnov).
    """

    metric: str
    runs: int
    rejection_rate: float
    rejection_low: float
    rejection_high: float
    uniformity_p_value: float


class Balance(VariantRecord):
    """A metric's pre-period difference; p adjusted over metrics × variants."""

    control: float | None
    treatment: float | None
    difference: float | None
    p_value: float | None
    p_adjusted: float | None
    reason: str | None


class Verdict(Frozen):
    """The decision on one variant, and why; `notes` end the sentence that says it."""

    variant: str
    decision: Decision
    sentence: str
    notes: tuple[str, ...] = ()


class AAResult(Tabled[AAMetric], DrawnRecord):
    """A/A replays of an experiment's metrics on its own logs.

    Attributes:
        share: Share of units that a replay assigns to treatment: the smallest share among the
            variants compared with control.
        dealt: What is assigned at random: `sub_buckets` or `units`.
        histograms: Metric → number of p-values in each of `BINS` bins of equal width.
        notes: How the replayed tests differ from the tests of the result's rows.
    """

    ROWS: ClassVar = ("metrics", "metric")
    TABLES: ClassVar = "short:tabulate_aa"

    alpha: float
    share: float
    dealt: str
    units: int
    metrics: tuple[AAMetric, ...]
    histograms: Mapping[str, tuple[int, ...]]
    refused: Mapping[str, str]
    notes: tuple[str, ...] = ()
    seed: int | None = None

    def off(self) -> tuple[str, ...]:
        """List metrics that reject more than three errors above alpha.

        Example:
            >>> row = AAMetric("ctr", 10_000, 0.0497, 0.0455, 0.0541, 0.61)
            >>> AAResult(0.05, 0.5, "sub_buckets", 10**6, (row,), {}, {}).off()
            ()
        """
        return tuple(name for name, errors in self.errors().items() if errors > 3)

    def errors(self) -> dict[str, float]:
        """Return how many errors each metric's rejection rate is off alpha.

        Two errors add up. The first is the Monte Carlo error. The second comes from assigning B
        sub-buckets instead of units: their standard deviation is off by a share of 1 / sqrt(2 B).
        """
        # A result without A/A replays is read without scipy.
        from scipy import special

        z = -float(special.ndtri(self.alpha / 2))
        # Error of the rate when the standard error is off by a fraction: 2 z phi(z) of it.
        assigning = 0.0 if self.dealt == "units" else 2 * z * _density(z) / (2 * SUB_BUCKETS) ** 0.5
        return {
            row.metric: (row.rejection_rate - self.alpha)
            / (self.alpha * (1 - self.alpha) / row.runs + assigning**2) ** 0.5
            for row in self.metrics
        }

    def doubts(self) -> dict[str, float]:
        """Return each metric's p-value of a rejection rate ≤ alpha (Bonferroni).

        A test that rejects too rarely gives no reason to doubt its rejections.

        Example:
            >>> rows = [AAMetric(name, 2_000, rate, 0.0, 1.0, 0.5) for name, rate in
            ...         (("ctr", 0.05), ("dwell", 0.09))]
            >>> doubts = AAResult(0.05, 0.5, "units", 9_000, tuple(rows), {}, {}).doubts()
            >>> doubts["ctr"], doubts["dwell"] < 1e-12
            (1.0, True)
        """
        from scipy import special

        tests = len(self.metrics)
        return {
            # One-sided: only too many rejections count.
            name: min(1.0, tests * float(special.ndtr(-errors)))
            for name, errors in self.errors().items()
        }


def _density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


class Reassigned(Frozen):
    """Units by their logged variant and by the rule's variant; None if left out."""

    logged: str
    expected: str | None
    units: int


class AuditDay(Frozen):
    """Units by the day of their first impression, and the rule's mismatches."""

    day: str | None
    units: int
    mismatches: int


class Independence(Frozen):
    """Whether two experiments were assigned independently of each other.

    `units` counts the units in both. `p_value` is from the chi-square test of the table of
    variants; None with too few units. `p_adjusted` is after Holm over all pairs. `cramers_v` is 0
    if they are independent, 1 if one decides the other.
    """

    one: str
    other: str
    units: int
    p_value: float | None
    p_adjusted: float | None
    cramers_v: float | None


class Untested(VariantRecord):
    """An effect that is not compared between an experiment's variants: `too_skewed`.

    `units` counts those of the smaller variant where the experiment `segment` has `cell`;
    `units_needed` are so many that large-sample tests hold.
    """

    segment: str
    cell: str
    units: int
    units_needed: int


CLAIMED = 0.005
"""Level at which an interaction is claimed, after Holm over all that were tested."""


class AuditResult(Tabled[Reassigned]):
    """Whether a log's variants are those of the assignment rule.

    Attributes:
        scheme: The platform, or `abeval`; None if the file has no [assignment].
        since: First day from which on mismatches are more frequent than before; None if there is no
            such day.
        uniformity: P-value of an even spread of the units over the slots of the last draw.
        interactions: The effect among units of a variant of another experiment (`segment`, `cell`)
            against that among its other units; `p_adjusted` is after Holm over all.
    """

    ROWS: ClassVar = ("matrix", "logged", "expected")
    TABLES: ClassVar = "short:tabulate_audit"

    experiment: str
    scheme: str | None
    units: int
    mismatches: int
    rate: float | None
    low: float | None
    high: float | None
    since: str | None
    matrix: tuple[Reassigned, ...]
    days: tuple[AuditDay, ...]
    pairs: tuple[Independence, ...]
    uniformity: float | None
    interactions: tuple[SegmentContrast, ...] = ()
    untested: tuple[Untested, ...] = ()
