"""Hold a history of experiments, and what it says about metrics.

`low` and `high`, or `X_low` and `X_high`, are the ends of an interval. Shares have Wilson's
interval (1927). `reason` says why numbers are missing; else it is None.
"""

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Literal

from abeval.results.record import Frozen, PageRecord, Tabled

if TYPE_CHECKING:
    import pandas as pd

Source = Literal["analysis", "replay", "agreement", "preferences", "windows"]
_Change = Literal["added", "replaced", "unchanged"]
Side = Literal["offline", "online"]


class HistoryRow(Frozen, kw_only=True):
    """One metric of one variant in one experiment, as the history file keeps it.

    Attributes:
        source: Kind of result that the row comes from: `analysis`, `replay`, `agreement`,
            `preferences`, `windows`.
        digest: Hash of that result's content and of what was stated when it was added.
        control: The variant, or the model, that `variant` is compared with.
        side: `offline` for what is known before an A/B test, such as preferences; else `online`.
        traffic: For a replay: the variant on whose traffic the metric was computed, or `pooled`.
            Else None.
        direction: Which way is better: `increase`, `decrease` or `toward VALUE`; None if not known.
        scale: Scale of the effect: `lift` (a fraction of control) or `difference`.
        se: Standard error of the effect, derived from its interval.
        units: Units of the variant; for a replay, of the traffic.
        shipped: Whether the variant was shipped: by the verdict, or as stated when it was added.
        week: Of `windows`: the week since entry, 1 the first; effects are mean logs of lifts.
        covariance: Of `windows`: covariance of the error with that of the first week.
        site_lift: Lift of all traffic, where only exposed units are in `effect`, with `site_se`.
        triggered: Whether traffic without an exposure was left out; None in older histories.
    """

    experiment: str
    source: Source
    digest: str = ""
    variant: str
    control: str = ""
    model: str | None = None
    metric: str
    side: Side
    traffic: str | None = None
    start: str | None = None
    end: str | None = None
    role: str | None = None
    direction: str | None = None
    scale: Literal["lift", "difference"] = "lift"
    value_control: float | None = None
    value: float | None = None
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    se: float | None = None
    p_value: float | None = None
    alpha: float
    units_control: int | None = None
    units: int = 0
    trusted: bool = True
    reason: str | None = None
    decision: str | None = None
    shipped: bool = False
    week: int | None = None
    covariance: float | None = None
    site_lift: float | None = None
    site_se: float | None = None
    triggered: bool | None = None


class AddedSource(Frozen):
    """One result that was added, with its rows and those it replaced.

    `without_effect` counts rows without an effect or without its standard error. No statistic uses
    them.
    """

    source: Source
    change: _Change
    rows: int
    replaced: int
    without_effect: int


class Added(Tabled[AddedSource]):
    """What a call of `History.add` changed."""

    ROWS: ClassVar = ("sources", "source")
    TABLES: ClassVar = "history_page:tabulate_additions"

    history: str
    experiment: str
    sources: tuple[AddedSource, ...]
    experiments: int


HISTORY_SCHEMA_VERSION = "1"

FEWEST = 5
"""With fewer experiments nothing is said about a metric: `too_few_units`."""


class Sensitivity(Frozen, kw_only=True):
    """How often a metric moves at all.

    Attributes:
        measure: The metric.
        moved: Number of effects whose p-value is below alpha.
        spread: Standard deviation of true effects; None with a `reason`.
        signal: Share of true effects in the variance of the estimates.
    """

    measure: str
    experiments: int
    effects: int
    moved: int
    share: float
    low: float
    high: float
    spread: float | None = None
    se: float
    signal: float | None = None
    reason: str | None = None


class Prediction(Frozen, kw_only=True):
    """How true effects on an offline metric predict those on an online one.

    Effects are turned so that more is better, by the direction of either metric.

    Attributes:
        predictor: The offline metric.
        target: The online metric.
        correlation: Correlation of the true effects, corrected for noise in both metrics; None with
            a `reason`.
        slope: True effect on the target per unit of true effect on the predictor.
        step: A typical gain of the predictor: the median size of its effects.
        chance: Probability that the true effect on the target is a gain, after one of `step`.
        chance_loss: Probability of a gain after a loss of `step`.
        base: Share of past experiments whose estimated effect on the target was a gain.
        explained: Share of the squared prediction error that the predictor removes, in experiments
            left out of the fit; negative if it does harm.
        quality: Correlation between the estimated effect on the predictor and the true effect on
            the target.
    """

    predictor: str
    target: str
    experiments: int
    effects: int
    naive: float | None
    correlation: float | None = None
    low: float | None = None
    high: float | None = None
    slope: float | None = None
    slope_low: float | None = None
    slope_high: float | None = None
    agree: int
    agree_share: float
    agree_low: float
    agree_high: float
    step: float | None = None
    chance: float | None = None
    chance_loss: float | None = None
    base: float | None
    explained: float | None = None
    quality: float | None = None
    reason: str | None = None


class Choice(Frozen):
    """The predictor of a target that does best on experiments left out.

    Attributes:
        experiments: Number of experiments that have the target and all these predictors.
        best: The predictor with the largest gain; None if none is better than no predictor.
        chosen: Number of experiments that, left out alone, leave `best` the best.
        gain: Share of the squared error that the choice removes, in experiments that had no part in
            it.
    """

    target: str
    predictors: int
    experiments: int
    best: str | None
    chosen: int
    gain: float | None
    sentence: str


class HistoryEffect(Frozen):
    """One effect, as measured and as shrunk by past effects.

    The shrinkage follows from the spread of past effects. Without a prior, as for offline metrics,
    there is none.
    """

    experiment: str
    variant: str
    measure: str
    side: Side
    direction: str | None
    effect: float
    low: float
    high: float
    shrunk: float | None
    shrunk_low: float | None
    shrunk_high: float | None
    shipped: bool


class Gained(Frozen):
    """Total gain of the shipped variants on a metric, naive and shrunk."""

    metric: str
    shipped: int
    effects: int
    naive: float
    gained: float | None = None
    low: float | None = None
    high: float | None = None
    prior_mean: float | None = None
    prior_sd: float | None = None
    reason: str | None = None


class Launch(Frozen):
    """One launch of a quarter and its lift, as measured and as shrunk.

    Attributes:
        since: First day of the holdout's period on which everybody else had it.
        share: Share of the period in which they had it, by active units.
    """

    metric: str
    experiment: str
    variant: str
    since: str
    share: float
    measured: float
    shrunk: float
    low: float
    high: float


class HoldoutWeek(Frozen):
    """The lift of all others over the holdout, from the first day to a week's end.

    `plain` is without covariates; `expected` is what the launches let expect of the same days.
    """

    metric: str
    end: str
    days: int
    holdout: float | None
    holdout_low: float | None
    holdout_high: float | None
    plain: float | None
    plain_low: float | None
    plain_high: float | None
    expected: float
    expected_low: float
    expected_high: float


class Programme(Frozen):
    """What the launches of a quarter gained together, beside its holdout.

    All are lifts over the holdout's period, but for `together`. `naive`, `luck`, `wear_off`,
    `not_live` and `unexplained` add up to `holdout`.

    Attributes:
        gained: What the quarter gained: of launches and holdout, if they agree.
        basis: What `gained` rests on; `holdout` where the launches say something else.
        together: The shrunk lifts of all launches, compounded, as if all were live.
        expected: What they let expect of the period, tests included.
        holdout: What was measured over the holdout.
        p_value: P-value of no difference between `expected` and `holdout`.
        unmeasured: Number of launches without an effect on this metric: they are not in the sum.
        naive: The lifts as measured, compounded.
        luck: What shrinking takes away: the winners' luck.
        wear_off: What is lost after the tests, by `kept`.
        not_live: What the days before launches lack.
        unexplained: What is left: overlap of launches, noise, and what else is not known.
        kept: Share of an effect that is left after its test, on average over the launches.
    """

    metric: str
    name: str
    launches: int
    basis: Literal["both", "holdout", "launches", "none"]
    unmeasured: int = 0
    reason: str | None = None
    gained: float | None = None
    gained_low: float | None = None
    gained_high: float | None = None
    together: float | None = None
    together_low: float | None = None
    together_high: float | None = None
    expected: float | None = None
    expected_low: float | None = None
    expected_high: float | None = None
    holdout: float | None = None
    holdout_low: float | None = None
    holdout_high: float | None = None
    p_value: float | None = None
    naive: float | None = None
    luck: float | None = None
    wear_off: float | None = None
    not_live: float | None = None
    unexplained: float | None = None
    unexplained_low: float | None = None
    unexplained_high: float | None = None
    kept: float | None = None
    kept_sd: float | None = None


class Lasting(Frozen):
    """How much of the effect in the first week since entry is left in a later one.

    Attributes:
        kept: True effect in `week` by one in the first week; None with a `reason`.
        explained: Share of the squared error of predictions of the later effect that the first week
            removes, in experiments left out of the fit.
        error: Standard error of such a prediction of a new experiment, as a fraction.
        supported: Whether the first week predicts the later effect better than nothing does.
    """

    metric: str
    week: int
    experiments: int
    kept: float | None = None
    low: float | None = None
    high: float | None = None
    explained: float | None = None
    error: float | None = None
    supported: bool = False
    reason: str | None = None


class HistoryReport(Tabled[Prediction], PageRecord):
    """What a history of experiments says, and how many rows were not used."""

    ROWS: ClassVar = ("predictions", "predictor", "target")
    TABLES: ClassVar = "history_page:tabulate_history"

    schema_version: str
    history: str
    alpha: float
    experiments: tuple[str, ...]
    predictions: tuple[Prediction, ...]
    choices: tuple[Choice, ...]
    sensitivity: tuple[Sensitivity, ...]
    gained: tuple[Gained, ...]
    effects: tuple[HistoryEffect, ...]
    left_out: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = field(default=())
    programmes: tuple[Programme, ...] = ()
    launches: tuple[Launch, ...] = ()
    weeks: tuple[HoldoutWeek, ...] = ()
    lasting: tuple[Lasting, ...] = ()

    def effects_frame(self) -> "pd.DataFrame":
        """Return one row per experiment, variant and metric."""
        return self._frame("effects")
