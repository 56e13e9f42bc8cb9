"""Metrics of the scores themselves by queries: pairs of rows, errors, calibration.

`offline/sums/run.py` calls it with `scored_rows` and `traffic_rows` of one model; the sums go into
its `UnitValues`, the calibration curve to `offline/estimates/`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from abeval.engines.protocol import Engine, whole_number
from abeval.engines.sql import query
from abeval.offline.kernels import SCALE, UnitValues, graded_orders
from abeval.offline.metrics import GRADED, OfflineMetric
from abeval.stats.records import Floats, Integers

if TYPE_CHECKING:
    import pandas as pd


_PAIRS_A_ROW = 12
"""With more pairs per row than this, rank sums are faster than pair by pair."""

_POINT = ("predicted_positive", "true_positive", "rows", "clicks")


def add_pairs(engine: Engine, metrics: Sequence[OfflineMetric], values: UnitValues) -> None:
    """Add the sums of GAUC and FCP per unit, read from `scored_rows`."""
    wanted = {m.definition.numerator for m in metrics if m.definition.family == "pairs"}
    if not wanted:
        return
    engine.table("unit_pairs", query(f"offline/{_pairs(engine)}"))
    frame = engine.frame(query("offline/pair_values"))
    names = [str(c) for c in frame.columns if str(c) not in ("unit_id", "clicks")]
    values.add(frame, {c: c for c in names if not c.startswith("v_")})
    values.add(frame, {"clicks": "gauc_clicks"})
    values.add(frame, {c: c.removeprefix("v_") for c in names if c.startswith("v_")}, SCALE)
    values.columns["won_pairs"] = values["won_halves"] / 2
    if wanted & GRADED:
        _add_graded(engine, values)


def _pairs(engine: Engine) -> str:
    ((pairs, rows),) = engine.rows(
        "select cast(sum(p * (n - p)) as double), cast(sum(n) as double) from "
        "(select count(*) as n, sum(click) as p from scored_rows group by unit_id) as u"
    )
    few = float(pairs or 0) <= _PAIRS_A_ROW * float(rows or 0)
    return "pairs_of_few" if few else "pairs"


def _add_graded(engine: Engine, values: UnitValues) -> None:
    """Add concordant and discordant pairs of every two levels of relevance."""
    levels = whole_number(
        engine,
        "select max(levels) from "
        "(select count(distinct grade) as levels from scored_rows group by unit_id) as u",
    )
    digits = max(math.ceil(math.log2(max(levels, 2))), 1)
    halves = ", ".join(f"({2**i})" for i in range(digits))
    engine.view("bits", f"select * from (values {halves}) as v (half)")
    frame = engine.frame(query("offline/graded_pairs"))
    values.add(frame, {"pairs": "graded", "won_halves": "graded_halves", "tied": "graded_tied"})
    won, tied, pairs = (values[c] for c in ("graded_halves", "graded_tied", "graded"))
    values.columns.update(graded_orders(won, tied, pairs))


def add_auc(engine: Engine, metrics: Sequence[OfflineMetric], values: UnitValues, by: str) -> None:
    """Add each unit's pseudo-value of the AUC over all rows, as `auc:BY` and `units:BY`.

    By `traffic`, the AUC is over the rows of each variant; by `pooled`, over all rows.
    """
    if not any(m.definition.family == "auc" for m in metrics):
        return
    variant = "traffic" if by == "traffic" else "'pooled'"
    # Imported here, because an evaluation without AUC needs no experiment and no logs.
    from abeval.logs.views import show_scored

    show_scored(engine, f"select {variant} as variant, unit_id, score, click from traffic_rows")
    frame = engine.frame(query("units/auc"))
    values.add(frame, {"c_auc": f"auc:{by}"}, SCALE)
    values.add(frame, {"c_scored_units": f"units:{by}"})


def add_points(
    engine: Engine,
    metrics: Sequence[OfflineMetric],
    values: UnitValues,
    threshold: float | None,
) -> None:
    """Add the sums of log loss, calibration and errors per unit, read from `scored_rows`."""
    if not any(m.definition.family == "point" for m in metrics):
        return
    cut = "cast(null as double)" if threshold is None else f"cast({threshold!r} as double)"
    engine.view("threshold", f"select {cut} as threshold")
    frame = engine.frame(query("offline/point_values"))
    values.add(frame, {name: f"point_{name}" for name in _POINT})
    sums = [str(c) for c in frame.columns if str(c).startswith("v_")]
    values.add(frame, {c: f"point_{c.removeprefix('v_')}" for c in sums}, SCALE)
    values.columns["point_log_likelihood"] = -values["point_log_loss"]
    yes, hit = values["point_predicted_positive"], values["point_true_positive"]
    values.columns["point_twice_true_positive"] = 2 * hit
    values.columns["point_both_positive"] = yes + values["point_clicks"]


def calibration(engine: Engine, bins: int) -> pd.DataFrame:
    """`traffic, kind, bin, unit_group, rows, clicks, predicted`: the curve, binned both ways."""
    engine.view("bin_count", f"select cast({bins} as bigint) as bins")
    frame = engine.frame(query("offline/calibration"))
    frame["predicted"] = frame["predicted"].astype(float) * SCALE
    return frame


@dataclass(frozen=True)
class Bins:
    """A calibration curve by bin and group of units.

    Attributes:
        gap: Sums of score − click, shape (bins, groups).
        rows: Rows, shape (groups,).
    """

    gap: Floats
    rows: Floats

    @classmethod
    def of(cls, curve: pd.DataFrame, groups: int) -> Bins:
        """From the curve of one traffic and kind of bin."""
        number, group = (curve[c].to_numpy(dtype=np.int64) for c in ("bin", "unit_group"))
        gap = (curve["predicted"] - curve["clicks"]).to_numpy(dtype=np.float64)
        size = int(number.max()) + 1 if number.size else 0
        cell = number * groups + group
        flat = np.bincount(cell, weights=gap, minlength=size * groups).astype(np.float64)
        counted = curve["rows"].to_numpy(dtype=np.float64)
        rows = np.bincount(group, weights=counted, minlength=groups).astype(np.float64)
        return cls(flat.reshape(size, groups), rows)

    def error(self) -> float:
        """Σ rows·|mean score − click rate| / Σ rows over the bins.

        Example:
            >>> Bins(np.array([[0.5], [-0.5]]), np.array([4.0])).error()
            0.25
        """
        return float(np.abs(self.gap.sum(axis=1)).sum() / self.rows.sum())

    def errors_without(self, groups: Integers) -> Floats:
        """The error without each of some groups."""
        gap = np.abs(self.gap.sum(axis=1)[:, None] - self.gap[:, groups]).sum(axis=0)
        return np.asarray(gap / (self.rows.sum() - self.rows[groups]))

    def bias(self, groups: Integers) -> float:
        """Expected excess of the error, because noise alone counts as a gap.

        The mean of a folded normal less the gap, over bins (Leone, Nelson and Nottingham 1961).
        """
        # Imported here, because the import takes longer than most metrics.
        from scipy.special import ndtr

        gap = self.gap.sum(axis=1)
        spread = np.sqrt(self.gap[:, groups].var(axis=1, ddof=1) * groups.size)
        z = np.divide(gap, spread, out=np.full(gap.size, np.inf), where=spread > 0)
        noise = spread * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)
        folded = noise + gap * (1 - 2 * ndtr(-z))
        excess = np.where(spread > 0, folded - np.abs(gap), 0.0)
        return float(excess.sum() / self.rows.sum())
