"""Hold the agreement of offline and online results, as frozen records.

`X_low` and `X_high`, or `low` and `high`, are the ends of the interval of the value before them.
`variant` is the variant compared with control. `reason` is a code if a number is missing.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from abeval.results import format as fmt
from abeval.results.codes import describe_code
from abeval.results.record import DrawnRecord, Frozen, Tabled, find_row, read_back

if TYPE_CHECKING:
    import pandas as pd

AGREEMENT_SCHEMA_VERSION = "1"

Concordance = Literal["agree", "conflict", "offline only", "online only", "inconclusive"]
_CauseStatus = Literal["found", "not found", "cannot be checked"]


class OfflineDifference(Frozen):
    """The paired difference `candidate - baseline` on one traffic, beside an effect.

    Its `strength` is as the `offline_strength` of `AgreementRow`.
    """

    traffic: str
    difference: float | None
    low: float | None
    high: float | None
    standing: Concordance
    strength: float | None = None


class AgreementRow(Frozen):
    """One offline metric against one online metric; offline on control's traffic.

    Attributes:
        role: Role of the online metric: `goal`, `guardrail` or `diagnostic`.
        difference: `candidate - baseline` on control's traffic, as known before the launch.
        standing: `conflict` only if both intervals exclude zero with opposite signs, and `agree`
            only if both exclude it with the same. Signs count as gain or loss, for lower is better
            for some metrics.
        offline_strength: The offline difference divided by the half-width of its interval, positive
            if better. Beyond 1 the interval excludes zero. None without an interval or a good
            direction.
        online_strength: The online effect divided by the half-width of its interval.
    """

    variant: str
    offline: str
    online: str
    role: str
    difference: float | None
    low: float | None
    high: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    standing: Concordance
    reason: str | None
    others: tuple[OfflineDifference, ...] = ()
    offline_strength: float | None = None
    online_strength: float | None = None


class MatrixCell(Frozen):
    """A metric of one model on one variant's traffic, with its interval."""

    variant: str
    metric: str
    model: str
    traffic: str
    value: float | None
    low: float | None
    high: float | None
    reason: str | None


class Decomposition(Frozen):
    """The logged difference (each model on its own traffic) as model + traffic.

    `model` is the candidate minus the baseline, averaged over both traffics. `traffic` is the
    variant's traffic minus control's, averaged over both models.
    """

    variant: str
    metric: str
    logged: float | None
    logged_low: float | None
    logged_high: float | None
    model: float | None
    model_low: float | None
    model_high: float | None
    traffic: float | None
    traffic_low: float | None
    traffic_high: float | None
    reason: str | None


class Backtest(Frozen):
    """One variant's CTR estimated from the other's log, against its own.

    `value` is None if refused; `reason` says why. `z` is `(value - realised)` divided by the
    standard error of this difference.
    """

    variant: str
    source: str
    target: str
    estimator: str
    value: float | None
    low: float | None
    high: float | None
    realised: float | None
    z: float | None
    reason: str | None


class PositionRate(Frozen):
    """Click rate of a variant at one position, with its interval, clustered by unit."""

    variant: str
    position: int
    impressions: int
    clicks: int
    ctr: float
    low: float | None
    high: float | None


class Evidence(Frozen):
    """A number that a cause rests on, and the variant, day or cut of it."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    where: str = ""


class Cause(Frozen):
    """Why offline and online may differ, checked for one variant.

    Attributes:
        status: `found` only if its size reaches the threshold and its adjusted p-value is below
            the level.
        threshold: Size that the cause must reach to count as found.
        p_value: P-value of the hypothesis that the cause is absent; None if nothing is tested.
        p_adjusted: P-value after Holm over all causes checked for the variant.
        accounts_for: Share of the gap that closes without the cause, from 0 to 1; None if unknown.
        rank: Place among the causes found, from 1; None for others.
    """

    name: str
    variant: str
    status: _CauseStatus
    message: str
    evidence: tuple[Evidence, ...] = ()
    threshold: float | None = None
    threshold_reason: str = ""
    p_value: float | None = None
    p_adjusted: float | None = None
    accounts_for: float | None = None
    remedy: str = ""
    needs: tuple[str, ...] = ()
    rank: int | None = None


class GapPart(Frozen):
    """How much of the gap one cause explains, as a share of control's clicks."""

    name: str
    points: float
    points_low: float
    points_high: float
    p_value: float | None


class Gap(Frozen):
    """The lift promised offline, the lift online, and what explains the gap.

    Lifts are of clicks per impression, as shares. `promised`, all points and `unexplained` add up
    to `came`. All numbers are None if the gap cannot be sized; `reason` says why.

    Attributes:
        unsized: Causes that were found, but whose size is unknown.
        source: What the promise rests on: `rows` of the log, or a `history`.
        predictor: Of a history, the offline metric that predicts.
    """

    variant: str
    metric: str
    promised: float | None = None
    promised_low: float | None = None
    promised_high: float | None = None
    came: float | None = None
    came_low: float | None = None
    came_high: float | None = None
    causes: tuple[GapPart, ...] = ()
    unexplained: float | None = None
    unexplained_low: float | None = None
    unexplained_high: float | None = None
    unsized: tuple[str, ...] = ()
    reason: str = ""
    source: str = ""
    predictor: str = ""

    @property
    def is_closed(self) -> bool:
        """Tell whether the causes leave nothing unexplained beyond noise."""
        low, high = self.unexplained_low, self.unexplained_high
        return low is not None and high is not None and low <= 0 <= high

    @property
    def basis(self) -> str:
        """Say by which offline metric past experiments promise the lift.

        The text is empty if the promise rests on the log's rows.
        """
        return f" by {self.predictor}, as in past experiments," if self.predictor else ""

    @property
    def steps(self) -> list[tuple[str, fmt.Interval, float | None]]:
        """List the steps from the promise to the result: name, points and p-value."""
        causes = (
            (describe_code(c.name), (c.points, c.points_low, c.points_high), c.p_value)
            for c in self.causes
        )
        unexplained = self.unexplained, self.unexplained_low, self.unexplained_high
        return [
            ("promised", (self.promised, self.promised_low, self.promised_high), None),
            *causes,
            ("not explained", unexplained, None),
            ("came", (self.came, self.came_low, self.came_high), None),
        ]

    @property
    def sentence(self) -> str:
        """Describe the promise, the outcome, each cause and the rest.

        Example:
            >>> Gap("b", "ctr", 0.4, 0.33, 0.47, 0.06, 0.03, 0.09).sentence
            'Promised +40.0% [+33.0%, +47.0%]; came +6.0% [+3.0%, +9.0%].'
        """
        if self.promised is None:
            return f"The gap cannot be sized: {self.reason}."
        (_, promised, _), *parts, came = self.steps
        texts = (
            f"{name} {fmt.format_interval(points, '+.1%')}"
            for name, points, _ in ((f"Promised{self.basis}", promised, None), came, *parts)
            if points[0] is not None
        )
        return f"{'; '.join(texts)}."


class Explanation(Frozen):
    """What the causes say of one variant, in sentences, most likely cause first."""

    variant: str
    offline: str
    online: str
    standing: Concordance
    sentences: tuple[str, ...]
    gap: Gap | None = None

    @property
    def sized_gap(self) -> Gap | None:
        """Return the gap where it could be sized."""
        return None if self.gap is None or self.gap.promised is None else self.gap

    @property
    def has_causes(self) -> bool:
        """Tell whether causes explain points of the gap."""
        return self.gap is not None and bool(self.gap.causes)


class Agreement(Tabled[Cause], DrawnRecord):
    """Whether offline and online results agree, and if not, why.

    `gap` belongs to the first variant; each explanation has the gap of its own variant.
    """

    ROWS: ClassVar = ("rows",)
    TABLES: ClassVar = "agreement_page:tabulate_agreement"

    schema_version: str
    name: str
    alpha: float
    explanations: tuple[Explanation, ...]
    rows: tuple[AgreementRow, ...]
    matrix: tuple[MatrixCell, ...]
    decompositions: tuple[Decomposition, ...]
    backtests: tuple[Backtest, ...]
    causes: tuple[Cause, ...]
    positions: tuple[PositionRate, ...]
    notes: tuple[str, ...]
    questions: tuple[str, ...] = ()
    gap: Gap | None = None

    def __getitem__(self, key: str | tuple[str | None, ...]) -> Cause:
        """Return the first cause of a name."""
        return find_row(self.causes, key, "name")

    @property
    def confirmed_causes(self) -> tuple[Cause, ...]:
        """Return the causes that were found, most likely first."""
        return tuple(cause for cause in self.causes if cause.status == "found")

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per offline and online metric."""
        # A column of records is of no use in a table.
        return super().to_frame().drop(columns="others")

    def causes_frame(self) -> "pd.DataFrame":
        """Return one row per cause."""
        return self._frame("causes")


def agreement_from_dict(raw: dict[str, Any]) -> Agreement:
    """Read an agreement back from its JSON; ValueError if of another version."""
    return read_back(raw, Agreement, AGREEMENT_SCHEMA_VERSION)
