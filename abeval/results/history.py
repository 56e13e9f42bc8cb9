"""Hold a history of experiments, and what it says about metrics.

`low` and `high`, or `X_low` and `X_high`, are the ends of an interval. Shares have Wilson's
interval (1927). `reason` says why numbers are missing; else it is None.
"""

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Literal

from abeval.results.record import Frozen, PageRecord, Tabled

if TYPE_CHECKING:
    import pandas as pd

Source = Literal["analysis", "replay", "agreement", "preferences"]
_Change = Literal["added", "replaced", "unchanged"]
Side = Literal["offline", "online"]


class HistoryRow(Frozen, kw_only=True):
    """One metric of one variant in one experiment, as the history file keeps it.

    Attributes:
        source: Kind of result that the row comes from: `analysis`, `replay`, `agreement`,
            `preferences`.
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

    def effects_frame(self) -> "pd.DataFrame":
        """Return one row per experiment, variant and metric."""
        return self._frame("effects")
