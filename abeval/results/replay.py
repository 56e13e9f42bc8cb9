"""The result of a replay: one frozen record, with views as JSON and as DataFrames.

`offline/estimates/judge.py` fills it, `offline/replay.py` adds curves, splits and cuts by value;
`report/replay_parts.py` draws it, `cli/replay.py` prints it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from abeval.inference.trust import audits
from abeval.results.record import DrawnRecord, frame, named

if TYPE_CHECKING:
    import pandas as pd

REPLAY_SCHEMA_VERSION = "1"

POOLED = "pooled"
"""The traffic of all variants together."""


@dataclass(frozen=True)
class Blend:
    """One more model: α of a model and 1 − α of another."""

    model: str
    base: str
    alpha: float

    @property
    def name(self) -> str:
        """Such as `0.25·candidate + 0.75·baseline`."""
        return f"{self.alpha:g}·{self.model} + {1 - self.alpha:g}·{self.base}"


@dataclass(frozen=True)
class ReplayModel:
    """A model by its name in the rows of a result.

    Attributes:
        name: Its name there.
        stage: Its stage in the scores log, or `served`; None without stages.
        blend: The models it is blended from; None for others.
    """

    name: str
    stage: str | None = None
    blend: Blend | None = None


@dataclass(frozen=True)
class ReplayRow:
    """One metric of one model on one variant's traffic.

    Attributes:
        traffic: The variant that served the units, or `pooled`.
        metric: Its id, which carries the definition.
        value: The metric; None if it has no value, for `reason`.
        low: Lower end of its interval, clustered by unit; of a share with few hits or few misses,
            and one request a unit, Wilson's (1927).
        high: Upper end.
        units: Units in the traffic.
        counted: The denominator: requests, impressions, clicks, pairs, lists or units.
        left_out: Requests, units or rows that the definition leaves out, counted.
        reason: A code from `docs/offline-metrics.md` if the value or its interval is missing.
    """

    model: str
    traffic: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    units: int
    counted: float
    left_out: tuple[tuple[str, int], ...]
    reason: str | None


@dataclass(frozen=True)
class PairRow:
    """A model compared with control's on the same requests, in pairs by unit.

    Attributes:
        control: The model of control.
        model: The model that is compared with it.
        traffic: As in `ReplayRow`, like `metric` and `units`.
        value_control: The metric of the model of control.
        value: The metric of the model.
        difference: `value - value_control`.
        low: Lower end of its interval.
        high: Upper end.
        p_value: Two-sided, of no difference; unadjusted.
        reason: A code if the difference or its interval is missing.
    """

    control: str
    model: str
    traffic: str
    metric: str
    value_control: float | None
    value: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    units: int
    reason: str | None


@dataclass(frozen=True)
class ModelCoverage:
    """How much of the log a model scores.

    Attributes:
        requests: Requests of the log.
        scored_requests: Those with at least one score of the model.
        rows: Items of all requests.
        unscored_rows: Items without a usable score: null, NaN or infinite.
        units: Units of the log.
        scored_units: Those with at least one score of the model.
    """

    model: str
    requests: int
    scored_requests: int
    rows: int
    unscored_rows: int
    units: int
    scored_units: int


@dataclass(frozen=True)
class CalibrationBin:
    """A bin of the calibration curve: click rate against predicted score.

    Attributes:
        low: Lower end of the interval of clicks / rows (Wilson 1927), as if rows were independent.
        high: Upper end.
    """

    model: str
    traffic: str
    kind: str
    bin: int
    rows: int
    clicks: int
    mean_score: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Split:
    """Every metric over one part of the log.

    Attributes:
        name: Such as `train`.
        rows: Model × traffic × metric.
    """

    name: str
    rows: tuple[ReplayRow, ...]


@dataclass(frozen=True)
class Gap:
    """The difference of a metric between two splits: overfitting, if the first is training.

    Attributes:
        first: The split that the other is subtracted from.
        other: The split that is subtracted.
        difference: `first - other`.
        low: Lower end of its interval, paired by unit.
        high: Upper end.
        p_value: Two-sided, of no difference; unadjusted.
        reason: A code if the difference or its interval is missing.
    """

    model: str
    traffic: str
    metric: str
    first: str
    other: str
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    reason: str | None


@dataclass(frozen=True)
class CurvePoint:
    """A metric at one cut-off."""

    k: int
    value: float | None
    low: float | None
    high: float | None
    reason: str | None


@dataclass(frozen=True)
class Curve:
    """A metric at every cut-off from 1 on.

    Attributes:
        metric: Its id without a cut-off.
        elbow: The cut-off after which the gain levels off; None without one.
    """

    model: str
    traffic: str
    metric: str
    points: tuple[CurvePoint, ...]
    elbow: int | None


@dataclass(frozen=True)
class CutByValue:
    """Metrics whose cut-off depends on the value of a column, over all requests that have one.

    Attributes:
        column: The column, part of the ids: `recall@device`.
        ks: Its values and their cut-offs.
        rows: Model × traffic × metric.
        pairs: Two models × traffic × metric.
    """

    column: str
    ks: tuple[tuple[str, int], ...]
    rows: tuple[ReplayRow, ...]
    pairs: tuple[PairRow, ...]


@dataclass(frozen=True, repr=False)
class ReplayResult(DrawnRecord):
    """The result of a replay.

    Attributes:
        schema_version: Of this record.
        name: Of the experiment.
        alpha: Level of the intervals.
        models: The models, with their stages and blends.
        definitions: Metric id → its formula.
        policy: How cases that definitions leave open were treated.
        rows: Model × traffic × metric.
        pairs: Two models × traffic × metric.
        coverage: How much each model scores.
        accounting: Rows and requests that were left out or merged, by reason.
        calibration: The calibration curves.
        notes: What a reader must know.
        splits: The same rows by part of the log; empty without splits.
        gaps: The first split compared with each other.
        curves: Metrics at every cut-off; empty unless requested.
        by_value: Metrics with a cut-off by a column's value; None unless requested.
        cut_rows: Cut × cell × model × traffic × metric, without those that need whole lists.
        cut_pairs: The same of two models.
    """

    schema_version: str
    name: str
    alpha: float
    models: tuple[ReplayModel, ...]
    definitions: tuple[tuple[str, str], ...]
    policy: tuple[tuple[str, str], ...]
    rows: tuple[ReplayRow, ...]
    pairs: tuple[PairRow, ...]
    coverage: tuple[ModelCoverage, ...]
    accounting: tuple[tuple[str, int], ...]
    calibration: tuple[CalibrationBin, ...]
    notes: tuple[str, ...]
    splits: tuple[Split, ...] = ()
    gaps: tuple[Gap, ...] = ()
    curves: tuple[Curve, ...] = ()
    by_value: CutByValue | None = None
    cut_rows: tuple[ReplayCutRow, ...] = ()
    cut_pairs: tuple[ReplayCutPair, ...] = ()

    def __getitem__(self, key: str | tuple[str, ...]) -> ReplayRow:
        """The row of a metric; or of a metric and model; or of a metric, model and traffic."""
        metric, *rest = (key,) if isinstance(key, str) else key
        model, traffic = (*rest, None, None)[:2]
        rows = [
            row
            for row in self.rows
            if model in (None, row.model) and traffic in (None, row.traffic)
        ]
        return named(rows, "metric", metric)

    def row(self, metric: str, model: str | None = None, traffic: str | None = None) -> ReplayRow:
        """The first row of a metric, and of a model and a traffic if they are named.

        Raises:
            KeyError: There is none.
        """
        for row in self.rows:
            named = model in (None, row.model) and traffic in (None, row.traffic)
            if row.metric == metric and named:
                return row
        raise KeyError((metric, model, traffic))

    def pair(self, metric: str, traffic: str | None = None) -> PairRow:
        """The first comparison of a metric, on a traffic if it is named.

        Raises:
            KeyError: There is none.
        """
        for pair in self.pairs:
            if pair.metric == metric and traffic in (None, pair.traffic):
                return pair
        raise KeyError((metric, traffic))

    def to_frame(self) -> "pd.DataFrame":
        """One row per model, traffic and metric."""
        return frame(self.rows, ReplayRow)

    def pairs_frame(self) -> "pd.DataFrame":
        """One row per two models, traffic and metric."""
        return frame(self.pairs, PairRow)

    def report(self, path: str | Path) -> Path:
        """Write everything as one self-contained HTML file."""
        return audits.write_report(self, path)
