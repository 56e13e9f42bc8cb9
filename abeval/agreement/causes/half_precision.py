"""Half precision: served scores are the model's own, rounded so far that their order is lost."""

import math
from typing import NamedTuple

import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.clusters import closed_by_served, p_above, served_loss, weight_of
from abeval.results.agreement import Evidence
from abeval.stats.records import Estimate

FEW = 0.05
_LEAST_VALUES = 100
_ORDERED = 0.99
_SHORT = 0.99


class Values(NamedTuple):
    """Served and own scores of one side, on rows without another fault.

    Attributes:
        compared: Rows with both.
        own_values: Number of different own scores.
        served_values: Number of different served ones.
        own_most: Rows of the most frequent own score.
        served_most: Rows of the most frequent served score.
        falls: Steps along the own score at which the served one falls.
        own_short: Own scores that fit into 16 bits.
        served_short: Served scores that do.
        lowest: The lowest served score.
        highest: The highest.
        floored: Rows whose own score is below the lowest, which they were served with.
        capped: Rows whose own score is above the highest, which they were served with.
        inside: Rows whose own score is between the two.
        moved: Those of them that were served with another score.
        rank_correlation: Of both (Spearman); None where one is constant.
    """

    compared: int
    own_values: int
    served_values: int
    own_most: int
    served_most: int
    falls: int
    own_short: int
    served_short: int
    lowest: float
    highest: float
    floored: int
    capped: int
    inside: int
    moved: int
    rank_correlation: float | None

    @property
    def kept(self) -> float:
        """The share of different values that is left."""
        return self.served_values / self.own_values if self.own_values else 1.0

    @property
    def is_short(self) -> bool:
        """Whether served scores fit into 16 bits, and own ones do not."""
        short, own = (n / max(self.compared, 1) for n in (self.served_short, self.own_short))
        return short > _SHORT and own < 1 - _SHORT / 2

    @property
    def clips(self) -> bool:
        """Whether scores stop at a cap or a floor, and those between are the model's own."""
        beyond = self.capped + self.floored
        ends = min(self.capped, self.floored) == 0 or self.lowest < self.highest
        return beyond > 0 and ends and self.moved <= (1 - _ORDERED) * self.inside

    @property
    def rounds(self) -> bool:
        """Whether served scores are own ones in the same order with fewer values.

        Rounding moves nearly all scores, a cap only those beyond it.
        """
        ordered = self.falls <= (1 - _ORDERED) * self.compared
        few = self.own_values >= _LEAST_VALUES and self.kept < FEW
        return ordered and (few or self.is_short) and self.moved > 0.5 * self.inside


def values_of(rows: pd.DataFrame, side: str) -> Values | None:
    """The row of a side of `served_values`."""
    own = rows[rows["side"] == side]
    if own.empty:
        return None
    row = own.iloc[0]
    varied = math.sqrt(float(row["own_own"]) * float(row["served_served"]))
    return Values(
        compared=int(row["compared"]),
        own_values=int(row["own_values"]),
        served_values=int(row["served_values"]),
        own_most=int(row["own_most"]),
        served_most=int(row["served_most"]),
        falls=int(row["falls"]),
        own_short=int(row["own_short"]),
        served_short=int(row["served_short"]),
        lowest=float(row["lowest"]),
        highest=float(row["highest"]),
        floored=int(row["floored"]),
        capped=int(row["capped"]),
        inside=int(row["inside"]),
        moved=int(row["moved"]),
        rank_correlation=float(row["own_served"]) / varied if varied > 0 else None,
    )


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """How many different values are left, and the AUC that rounding costs."""
    values = values_of(frames["served_values"], "variant")
    loss = served_loss(case, frames, "plain")
    if values is None or loss is None:
        message = "Half precision: no row of the variant has both scores and no other fault"
        return Unchecked(message, ("rows with served_score and the model's own score",))
    lost = loss.difference
    gone = Estimate(-lost.value, lost.variance, lost.units, lost.df)
    return Finding(
        exceeds=values.rounds,
        message=f"Half precision: served scores have {values.served_values:,} different values, "
        f"the model's own {values.own_values:,}; the AUC changes by {lost.value:+.3f}.",
        evidence=(
            Evidence("different served scores", float(values.served_values), where=case.variant),
            Evidence("different own scores", float(values.own_values), where=case.variant),
            Evidence("share of values left", values.kept, where=case.variant),
            Evidence(
                "served scores that fit into 16 bits",
                values.served_short / max(values.compared, 1),
                where=case.variant,
            ),
            clusters.evidence("AUC lost by rounding", lost, case.alpha, case.variant),
        ),
        threshold=FEW,
        threshold_reason="fewer than 5 % of the values are left, or all fit into 16 bits, in the "
        "order of the own scores; and the AUC falls",
        p_value=p_above(gone, 0.0) if values.rounds else 1.0,
        accounts_for=closed_by_served(case, lost, weight_of(frames["served_apart"], "plain")),
        remedy="Serve in 32 bits, or scale the scores before they are rounded.",
    )


CHECK = CauseCheck(
    "half_precision",
    judge,
    queries=("served_apart", "served_values", "pairs:served"),
    columns=("served_score", "baseline", "candidate"),
    shows="whether scores were rounded when they were served",
)
