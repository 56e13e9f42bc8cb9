"""Click rates by position and variant, for the figure and the table."""

from collections.abc import Iterator

import numpy as np

from abeval.agreement import clusters
from abeval.agreement.case import Case, Frames
from abeval.results.agreement import PositionRate

MOST = 50
"""Positions further down are not shown; they have few impressions."""


def position_rates(case: Case, facts: Frames | None) -> Iterator[PositionRate]:
    """A rate for each variant and position; nothing without positions."""
    if facts is None or "positions" not in facts:
        return
    rows = facts["positions"]
    shown = sorted(rows["position"].unique())[:MOST]
    of_cells = dict(list(rows.groupby(["variant", "position"])))
    for variant in (case.control, case.variant):
        for position in shown:
            cell = of_cells.get((variant, position))
            if cell is None:
                continue
            clicks, shows = (cell[c].to_numpy(dtype=np.float64) for c in ("clicks", "impressions"))
            rate = clusters.ratio(clicks, shows)
            ends = clusters.evidence("", rate, case.alpha)
            counts = (int(shows.sum()), int(clicks.sum()))
            value = float(clicks.sum() / shows.sum())
            yield PositionRate(variant, int(position), *counts, value, ends.low, ends.high)
