"""Hold the result of a replay, as frozen records.

`low` and `high` are the ends of an interval, clustered by unit. `reason` is a code from
`docs/methods.md` if a value or its interval is missing, else None. `traffic` is the variant that
served the units, or `pooled`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, TypeVar

from abeval.results.record import DrawnRecord, Frozen, Tabled, find_row

if TYPE_CHECKING:
    import pandas as pd


REPLAY_SCHEMA_VERSION = "1"

POOLED = "pooled"
"""The traffic of all variants together."""


class ReplayModel(Frozen):
    """A model, by its name in the rows."""

    name: str


class ModelRecord(Frozen):
    """A record of one metric of one model on one variant's traffic."""

    model: str
    traffic: str
    metric: str


class Measured(ModelRecord):
    """The value of a metric on a traffic.

    Attributes:
        value: The metric; None if it has no value, and `reason` says why.
        low: Lower end of the interval, clustered by unit. A share with few hits or few misses, and
            one request per unit, has Wilson's interval (1927).
        units: Number of units in the traffic.
        counted: What the denominator counts: requests, impressions, clicks, pairs, lists or units.
    """

    value: float | None
    low: float | None
    high: float | None
    units: int
    counted: float


class ReplayRow(Measured):
    """A metric's value, and what its definition leaves out."""

    left_out: tuple[tuple[str, int], ...]
    reason: str | None


class PairRow(Frozen):
    """A model compared with control's model on the same requests, in pairs by unit.

    `difference` is `value - value_control`; the p-value is not adjusted.
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


class ModelCoverage(Frozen):
    """Count how much of the replayed log has a score of a model.

    Attributes:
        requests: All requests of the log.
        scored_requests: Requests with at least one scored item.
        rows: All pairs of a request and an item.
        unscored_rows: Pairs without a finite score.
        units: All units of the log.
        scored_units: Units with at least one scored pair.
    """

    model: str
    requests: int
    scored_requests: int
    rows: int
    unscored_rows: int
    units: int
    scored_units: int


class ReplayPart(Frozen):
    """A part of the log: rows for which an expression is true.

    Attributes:
        name: Name of the part; result rows have it as `traffic`.
        where: The expression that selects the rows.
        of: Table whose columns the expression reads: `log`; for lists and a ground truth, `truth`
            or `run`.
        units: Number of units with such a row.
        coverage: For each model, how much of the part has scores.
    """

    name: str
    where: str
    of: str
    units: int
    coverage: tuple[ModelCoverage, ...]


class JudgedShare(Frozen):
    """How many items of a model's lists nobody judged, overall or in a part."""

    model: str
    part: str
    items: int
    unjudged: int


class CalibrationBin(Frozen):
    """A bin of the calibration curve: click rate against predicted score.

    The interval of clicks / rows is Wilson's (1927), as if rows were independent.
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


class CurvePoint(Frozen):
    """A metric at one cut-off."""

    k: int
    value: float | None
    low: float | None
    high: float | None
    reason: str | None


class Curve(ModelRecord):
    """A metric, by its id without a cut-off, at every cut-off from 1 on.

    `elbow` is the cut-off after which the gain levels off; None without one. `mean` is the mean
    over the points, with its interval; for DCG it is MDCG.
    """

    points: tuple[CurvePoint, ...]
    elbow: int | None
    mean: float | None = None
    mean_low: float | None = None
    mean_high: float | None = None
    mean_reason: str | None = None


class ReplayResult(Tabled[ReplayRow], DrawnRecord):
    """The result of a replay.

    `definitions` has the formulas by metric id. `policy` says how cases were treated that the
    formulas leave open. Rows and pairs of `parts` follow those of the whole log, with the part as
    `traffic`.
    """

    ROWS: ClassVar = ("rows", "metric", "model", "traffic")
    TABLES: ClassVar = "replay_tables:tabulate_replay"

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
    curves: tuple[Curve, ...] = ()
    questions: tuple[str, ...] = ()
    parts: tuple[ReplayPart, ...] = ()
    judged: tuple[JudgedShare, ...] = ()

    def row(self, metric: str, model: str | None = None, traffic: str | None = None) -> ReplayRow:
        """Return the first row of a metric, and of a model and traffic if given."""
        return self[metric, model, traffic]

    def pair(self, metric: str, traffic: str | None = None) -> PairRow:
        """Return the first comparison on a metric, and on a traffic if given."""
        return find_row(self.pairs, (metric, traffic), "metric", "traffic")

    def pairs_frame(self) -> "pd.DataFrame":
        """Return one row per two models, traffic and metric."""
        return self._frame("pairs")


Row = TypeVar("Row", ReplayRow, PairRow)


def select_metrics(result: ReplayResult, metrics: Sequence[str]) -> ReplayResult:
    """Keep only some metrics, as if they alone had been replayed.

    Curves stay as they are. Rows are in the order of the metrics; metrics that the result does not
    have are left out.
    """
    order = {name: index for index, name in enumerate(metrics)}
    definitions = dict(result.definitions)
    return replace(
        result,
        definitions=tuple((name, definitions[name]) for name in order if name in definitions),
        rows=_order_rows(result.rows, order, "model", "traffic"),
        pairs=_order_rows(result.pairs, order, "control", "model", "traffic"),
    )


def _order_rows(rows: Sequence[Row], order: Mapping[str, int], *keys: str) -> tuple[Row, ...]:
    """Sort the rows of some metrics within each group."""
    group = attrgetter(*keys)
    # Groups keep the order of their first rows.
    groups = {key: index for index, key in enumerate(dict.fromkeys(map(group, rows)))}
    kept = (row for row in rows if row.metric in order)
    return tuple(sorted(kept, key=lambda row: (groups[group(row)], order[row.metric])))
