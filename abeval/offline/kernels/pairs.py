"""Pairs of a relevant and another row over arrays: `queries/offline/pair_values.sql`, faster.

`offline/kernels/choice.py` calls it with `Rows`, and adds the columns to the `UnitValues` of the
model.
"""

import numpy as np

from abeval.offline.kernels import SCALE, Ranks, graded_orders, ranks_of, ratio
from abeval.offline.rows import Rows, scored, starts
from abeval.stats.records import Floats, Integers


def pair_sums(rows: Rows, model: str, of_requests: Ranks) -> dict[str, Floats]:
    """Per unit, pairs of a relevant and another row, and GAUC's sums (`pair_values.sql`).

    `of_requests` ranks the rows of the requests, which are ranked again where units have several.
    """
    (units, number), score, ranks = rows.by_unit, rows.scores[model], of_requests
    if units is not rows.requests:
        score = units.sorted(score)
        ranks = ranks_of(units, score, units.sorted(rows.tie), units.sorted(rows.is_relevant))
    if np.isnan(score).any():
        ranks = Ranks(*(column[ranks.place > 0] for column in ranks))
    unit, first, last = ranks.group, ranks.first, ranks.last
    n, p = scored(units, score), np.bincount(unit, minlength=len(units))
    # Rank sums: from the lowest score, twice the mean rank of a run is 2n + 2 − its two ends.
    won = _sums(unit, 2 * n[unit] + 2 - first - last, n.size) - p * (p + 1)
    columns = (n, p, won, _tied(unit, first, last, n.size))
    return _pair_values(*(_sums(number, column, rows.units) for column in columns))


def _tied(unit: Integers, first: Integers, last: Integers, units: int) -> Floats:
    """Pairs of a relevant and another row of equal scores."""
    run = starts(unit * (last.max(initial=0) + 1) + first)
    relevant, head = np.diff(run), run[:-1]
    return _sums(unit[head], relevant * (last[head] - first[head] + 1 - relevant), units)


def _sums(group: Integers, column: Integers | Floats, size: int) -> Floats:
    return np.bincount(group, column, size).astype(np.float64, copy=False)


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
