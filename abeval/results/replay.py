"""What a replay found: one frozen record; JSON, the DataFrames and the text are views of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abeval.results import views
from abeval.results.replayed_models import ReplayModel

if TYPE_CHECKING:
    import pandas as pd


REPLAY_SCHEMA_VERSION = "1"

POOLED = "pooled"
"""The traffic of all variants together, an extra beside each variant's own."""


@dataclass(frozen=True)
class ReplayRow:
    """One metric of one model on one variant's traffic.

    Attributes:
        model: The model.
        traffic: The variant whose units were served, or `pooled`.
        metric: Its id, which carries the definition.
        value: The metric; None where there is none, and `reason` says why.
        low: Lower end of its interval, clustered by unit.
        high: Upper end.
        units: Units that the value rests on.
        counted: What the value is a mean over, counted: requests, impressions, clicks, pairs.
        left_out: What the definition leaves out, counted.
        reason: A code from `docs/offline-metrics.md` where something is missing.
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
    """Two models on the same requests, compared in pairs by unit.

    Attributes:
        control: The model compared with.
        model: The model.
        traffic: The variant whose units were served, or `pooled`.
        metric: Its id.
        difference: `model - control`.
        low: Lower end of its interval.
        high: Upper end.
        p_value: Two-sided, of no difference; unadjusted.
        units: Units behind it.
        reason: A code where it could not be had.
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
        model: The model.
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
    """A bin of the calibration curve: how often was clicked what was given such scores."""

    model: str
    traffic: str
    kind: str
    bin: int
    rows: int
    clicks: int
    mean_score: float


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
    """How much a metric is larger in one split than in another: overfitting, if it is of training.

    Attributes:
        model: The model.
        traffic: The variant whose units were served, or `pooled`.
        metric: Its id.
        first: The split that the difference is from.
        other: The split that is taken off.
        difference: `first - other`.
        low: Lower end of its interval, paired by unit.
        high: Upper end.
        p_value: Two-sided, of no difference; unadjusted.
        reason: A code where it could not be had.
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
        model: The model.
        traffic: The variant whose units were served, or `pooled`.
        metric: Its id without a cut-off.
        points: By cut-off.
        elbow: The cut-off from which on more places pay less, None where there is none.
    """

    model: str
    traffic: str
    metric: str
    points: tuple[CurvePoint, ...]
    elbow: int | None


@dataclass(frozen=True)
class CutByValue:
    """Metrics whose cut-off differs by the value of a column, over all requests that have one.

    Attributes:
        column: The column, which stands in the ids: `recall@device`.
        ks: Its value and the cut-off there.
        rows: Model × traffic × metric.
        pairs: Two models × traffic × metric.
    """

    column: str
    ks: tuple[tuple[str, int], ...]
    rows: tuple[ReplayRow, ...]
    pairs: tuple[PairRow, ...]


@dataclass(frozen=True)
class ReplayResult:
    """Everything a replay found.

    Attributes:
        schema_version: Of this record.
        name: Of the experiment.
        alpha: Level of the intervals.
        models: What was replayed, blends and stages told apart.
        definitions: Metric id → its formula.
        policy: What was done where a definition says nothing.
        rows: Model × traffic × metric.
        pairs: Two models × traffic × metric.
        coverage: How much each model scores.
        accounting: What was set aside or merged, by reason.
        calibration: The calibration curves.
        notes: What a reader must know.
        splits: The same rows by part of the log, where splits are named.
        gaps: From the first split to each other.
        curves: Metrics at every cut-off, where asked.
        by_value: Metrics with a cut-off by a column's value, where asked.
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

    def row(self, metric: str, model: str | None = None, traffic: str | None = None) -> ReplayRow:
        """The first row of a metric, of a model and a traffic where they are named.

        Raises:
            KeyError: There is none.
        """
        for row in self.rows:
            if (
                row.metric == metric
                and model in (None, row.model)
                and traffic in (None, row.traffic)
            ):
                return row
        raise KeyError((metric, model, traffic))

    def pair(self, metric: str, traffic: str | None = None) -> PairRow:
        """The first comparison of a metric, on a traffic where it is named.

        Raises:
            KeyError: There is none.
        """
        for pair in self.pairs:
            if pair.metric == metric and traffic in (None, pair.traffic):
                return pair
        raise KeyError((metric, traffic))

    def to_frame(self) -> pd.DataFrame:
        """One row per model, traffic and metric."""
        return _frame(self.rows, ReplayRow)

    def pairs_frame(self) -> pd.DataFrame:
        """One row per two models, traffic and metric."""
        return _frame(self.pairs, PairRow)

    def report(self, path: str | Path) -> Path:
        """Write everything as one self-contained HTML file."""
        return views.write_report(self, path)

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, as the JSON file has them."""
        return asdict(self)

    def to_json(self) -> str:
        """The result as JSON text: finite everywhere, the same on every run."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _frame(rows: tuple[Any, ...], kind: type[Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([asdict(row) for row in rows], columns=[f.name for f in fields(kind)])
