"""What a history of experiments says: predictions, sensitivity, and what was gained.

`history/` fills these records; `cli/history.py` prints them, `report/history_page.py` draws them.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from abeval.inference.trust import audits
from abeval.results.history import Side
from abeval.results.record import Record, frame, named

if TYPE_CHECKING:
    import pandas as pd

HISTORY_SCHEMA_VERSION = "1"


@dataclass(frozen=True)
class Sensitivity:
    """How often a metric moves at all.

    Attributes:
        measure: The metric, with its days if it is not over the whole experiment.
        side: As in `HistoryRow`.
        experiments: Experiments that have it.
        effects: Their variants.
        moved: Effects whose p-value is below alpha.
        share: `moved / effects`.
        low: Lower end of its interval (Wilson 1927).
        high: Upper end.
        spread: Standard deviation of true effects; None with a `reason`.
        se: Median standard error.
        signal: Share of true effects in the variance of the estimates.
        reason: Why the spread is missing.
    """

    measure: str
    side: Side
    experiments: int
    effects: int
    moved: int
    share: float
    low: float
    high: float
    spread: float | None
    se: float
    signal: float | None
    reason: str | None


@dataclass(frozen=True)
class Prediction:
    """How true effects on a metric go together with those on another that is known before.

    Effects are turned so that more is better, by the direction of either metric.

    Attributes:
        predictor: The metric known before: offline, or online in the first days.
        target: The online metric, over the whole experiment or its last days.
        side: `offline` or `early`: of the predictor.
        experiments: Experiments that have both.
        effects: Their variants.
        naive: Correlation of the estimates.
        correlation: Correlation of true effects, corrected for noise in both; None with a `reason`.
        low: Lower end of its interval.
        high: Upper end.
        slope: True effect on the target by one of the predictor.
        slope_low: Lower end of its interval; None without a bound.
        slope_high: Upper end.
        shared: Correlation of the errors that was taken into account: the mean of what was
            measured, else what was assumed.
        shared_known: Effects whose shared noise was measured.
        agree: Effects whose signs agree.
        agree_share: `agree / effects`.
        agree_low: Lower end of its interval (Wilson 1927).
        agree_high: Upper end.
        step: A typical gain of the predictor: the median size of its effects.
        chance: Probability that the true effect on the target is a gain, after one of `step`.
        chance_loss: The same after a loss of `step`.
        base: Share of past effects on the target that were gains, by its estimate.
        explained: Share of the squared error of a prediction that the predictor takes away, of
            experiments that were left out; below zero where it does harm.
        quality: Correlation of an estimate of the predictor with the true effect on the target.
        reason: Why numbers are missing.
    """

    predictor: str
    target: str
    side: Side
    experiments: int
    effects: int
    naive: float | None
    correlation: float | None
    low: float | None
    high: float | None
    slope: float | None
    slope_low: float | None
    slope_high: float | None
    shared: float
    shared_known: int
    agree: int
    agree_share: float
    agree_low: float
    agree_high: float
    step: float | None
    chance: float | None
    chance_loss: float | None
    base: float | None
    explained: float | None
    quality: float | None
    reason: str | None


@dataclass(frozen=True)
class Choice:
    """The predictor of a target that does best on experiments left out.

    Attributes:
        target: The online metric.
        side: `offline` or `early`: of the predictors.
        predictors: Number of predictors compared.
        experiments: Experiments that have the target and all these predictors.
        best: The one with the largest gain; None if none beats no predictor at all.
        chosen: Experiments without which it is still the best.
        gain: Share of the squared error that the choice takes away, of experiments that had no
            part in it.
        sentence: The same in words.
    """

    target: str
    side: Side
    predictors: int
    experiments: int
    best: str | None
    chosen: int
    gain: float | None
    sentence: str


@dataclass(frozen=True)
class HistoryEffect:
    """One effect, as it was measured and as the others let one expect it.

    Attributes:
        experiment: Its name.
        variant: The variant.
        measure: As in `Sensitivity`.
        side: As in `HistoryRow`, like `direction`.
        effect: The estimate, raw sign.
        low: Lower end of its interval at `1 - alpha` of the report.
        high: Upper end.
        shrunk: Shrunk by the spread of past effects; None without a prior, as for offline metrics.
        shrunk_low: Lower end of its interval.
        shrunk_high: Upper end.
        shipped: Whether the variant was shipped.
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


@dataclass(frozen=True)
class Gained:
    """What the shipped variants gained together on a metric.

    Attributes:
        metric: Its id.
        shipped: Variants that were shipped.
        effects: All variants, whose spread is the prior.
        naive: Sum of the lifts of what was shipped.
        gained: Sum of the shrunken ones; None with a `reason`.
        low: Lower end of its interval.
        high: Upper end.
        prior_mean: Mean of the prior.
        prior_sd: Its standard deviation.
        reason: Why numbers are missing.
    """

    metric: str
    shipped: int
    effects: int
    naive: float
    gained: float | None
    low: float | None
    high: float | None
    prior_mean: float | None
    prior_sd: float | None
    reason: str | None


@dataclass(frozen=True, repr=False)
class HistoryReport(Record):
    """What a history of experiments says.

    Attributes:
        schema_version: Of the JSON.
        history: The file.
        alpha: Level of intervals.
        experiments: Experiments in the history, by name.
        predictions: Every predictor with every target.
        choices: The best predictor of each target.
        sensitivity: How often each online metric moves.
        gained: What was really gained, by metric.
        effects: Every effect behind these, with its shrunken one.
        left_out: What was not used, and how many rows.
        notes: What a reader must know that no number shows.
    """

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

    def __getitem__(self, key: tuple[str, str]) -> Prediction:
        """The prediction of a target by a predictor."""
        predictor, target = key
        rows = [row for row in self.predictions if row.target == target]
        return named(rows, "predictor", predictor)

    def to_frame(self) -> "pd.DataFrame":
        """One row per predictor and target."""
        return frame(self.predictions, Prediction)

    def effects_frame(self) -> "pd.DataFrame":
        """One row per experiment, variant and metric."""
        return frame(self.effects, HistoryEffect)

    def report(self, path: str | Path) -> Path:
        """Write everything as one self-contained HTML file."""
        return audits.write_report(self, path)
