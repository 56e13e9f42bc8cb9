"""Pairs of a relevant and another row over arrays: `queries/offline/pair_values.sql`, faster.

`offline/kernels/choice.py` calls it with `Rows`, and adds the columns to the `UnitValues` of the
model.
"""

import numpy as np

from abeval.offline.candidates.grouping import Block, Groups
from abeval.offline.candidates.rows import Rows
from abeval.offline.kernels.hits import COMPARISONS_A_ROW
from abeval.offline.metrics.formulas import graded_orders, ratio
from abeval.offline.metrics.units import SCALE
from abeval.stats.arrays import Bools, Floats, Integers
from abeval.threads import in_threads


def pair_sums(rows: Rows, model: str) -> dict[str, Floats]:
    """Per unit, pairs of a relevant and another row, and GAUC's sums (`pair_values.sql`)."""
    units, number = _by_unit(rows)
    clicked = units.sorted(rows.grade) > 0
    score = units.sorted(rows.scores[model])
    won, tied = np.zeros(len(units), np.int64), np.zeros(len(units), np.int64)

    def work(block: Block) -> None:
        halves, equal = _block_pairs(block.matrix(score), block.matrix(clicked))
        won[block.groups], tied[block.groups] = halves, equal

    in_threads(work, units.blocks())
    scored = ~np.isnan(score)
    counts = (units.sums(scored), units.sums(clicked & scored), won, tied)
    return _pair_values(*(_of_all_units(count, number, rows.units) for count in counts))


def _by_unit(rows: Rows) -> tuple[Groups, Integers]:
    """The rows of each unit, and the number of the unit."""
    if np.bincount(rows.unit, minlength=1).max() <= 1:
        return rows.requests, rows.unit
    unit = np.repeat(rows.unit, rows.requests.size)
    groups = Groups.of(unit)
    return groups, groups.sorted(unit)[groups.start[:-1]]


def _of_all_units(values: Integers, number: Integers, units: int) -> Floats:
    column = np.zeros(units)
    column[number] = values
    return column


def _block_pairs(scores: Floats, clicked: Bools) -> tuple[Integers, Integers]:
    """Twice the pairs in the right order plus once the tied, and the tied (`pairs.sql`)."""
    row, column = np.nonzero(clicked)
    if row.size * scores.shape[1] > COMPARISONS_A_ROW * scores.size:
        return _ranked_pairs(scores, clicked)
    others = np.where(clicked, np.nan, scores)[row]
    own = scores[row, column][:, None]
    below, equal = (others < own).sum(axis=1), (others == own).sum(axis=1)
    size = len(scores)
    tied = np.bincount(row, weights=equal, minlength=size).astype(np.int64)
    return 2 * np.bincount(row, weights=below, minlength=size).astype(np.int64) + tied, tied


def _ranked_pairs(scores: Floats, clicked: Bools) -> tuple[Integers, Integers]:
    """The same by rank sums, for units with many relevant rows."""
    order = np.argsort(scores, axis=1)
    score, hit = np.take_along_axis(scores, order, 1), np.take_along_axis(clicked, order, 1)
    scored = ~np.isnan(score)
    other = (~hit & scored).astype(np.int64)
    so_far = other.cumsum(axis=1)
    changes = np.ones((len(score), score.shape[1] + 1), dtype=np.bool_)
    changes[:, 1:-1] = score[:, 1:] != score[:, :-1]
    # Counts never fall along a row, so the last known one is the largest so far.
    below = np.maximum.accumulate(np.where(changes[:, :-1], so_far - other, 0), axis=1)
    ends = np.where(changes[:, 1:], so_far, score.shape[1])[:, ::-1]
    upto = np.minimum.accumulate(ends, axis=1)[:, ::-1]
    own = hit & scored
    return np.where(own, below + upto, 0).sum(axis=1), np.where(own, upto - below, 0).sum(axis=1)


def _pair_values(n: Floats, p: Floats, won: Floats, tied: Floats) -> dict[str, Floats]:
    pairs = p * (n - p)
    both = ((p > 0) & (p < n)).astype(np.float64)
    auc = ratio(won, 2 * pairs)
    return {
        "impressions": both * n,
        "gauc_clicks": both * p,
        "units": both,
        "pairs": pairs,
        "all_impressions": n,
        "all_clicks": p,
        "single_class_units": (n > 0) - both,
        "auc_impressions": np.rint(n * auc / SCALE) * SCALE,
        "auc_clicks": np.rint(p * auc / SCALE) * SCALE,
        "auc_units": np.rint(auc / SCALE) * SCALE,
        "auc_impressions_half": np.rint(n * np.where(both > 0, auc, 0.5) / SCALE) * SCALE,
        "won_pairs": won / 2,
        **graded_orders(won, tied, pairs),
    }
