"""Ranking metrics over arrays: the same numbers as `queries/offline`, faster.

Each function names the query that defines its numbers; tests compare both.
`offline/kernels/choice.py` calls it with `Rows`, and adds the sums to the model's `UnitValues`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from abeval.offline.candidates.rows import Rows, listed_of
from abeval.offline.kernels.hits import Hits, fine, hits_of
from abeval.offline.metrics.definitions import OfflineMetric
from abeval.offline.metrics.formulas import full_ideal, ratio
from abeval.offline.metrics.units import FINE, cut_column
from abeval.stats.arrays import Bools, Floats, Integers
from abeval.threads import in_threads


class Cut:
    """Sums of terms at one cut-off, per request with a relevant item (`list_values.sql`).

    As in the query, terms are whole multiples of 1e-12. `listed` counts the scored items of each
    request.
    """

    def __init__(self, hits: Hits, listed: Integers, k: int) -> None:
        self._hits = hits
        self._listed = listed
        self._sums: dict[str, Floats] = {}
        self._masks: dict[str, Floats] = {}
        self.k = k
        self.relevant = hits.groups.size.astype(np.float64)

    def __getitem__(self, name: str) -> Floats:
        """Σ of a term over the hits that are inside the cut-off."""
        if name not in self._sums:
            self._sums[name] = self._sum(self._hits.term(name) * self._inside(name))
        return self._sums[name]

    def dcg(self, kind: str) -> Floats:
        """Σ gain / log2(1 + place)."""
        return self[f"dcg_{self._hits.gain(kind)}"]

    def ideal(self, kind: str) -> Floats:
        """DCG in the best order of all relevant items."""
        return self[f"ideal_{self._hits.gain(kind)}"]

    def list_ideal(self, kind: str) -> Floats:
        """DCG in the best order of the list."""
        return self[f"list_{self._hits.gain(kind)}"]

    @cached_property
    def best(self) -> Floats:
        """The largest possible number of hits."""
        return np.minimum(self.relevant, self.k)

    @cached_property
    def steps(self) -> Floats:
        """Σ places of the list from each hit to the cut-off."""
        shown = np.minimum(self._listed, self.k)[self._hits.request]
        return self._sum((shown - self._hits.place + 1) * self._inside("hits"))

    @cached_property
    def early(self) -> Floats:
        """Hits in the first R places, R the number of relevant items."""
        hits = self._hits
        relevant = np.repeat(hits.groups.size, hits.groups.size)
        inside = (hits.place > 0) & (hits.place <= relevant)
        return self._sum(inside.astype(np.float64))

    def _inside(self, name: str) -> Floats:
        """1 for hits inside the cut-off, by the order of places that the term uses."""
        order = name.split("_")[0] if name.startswith(("ideal", "list")) else "place"
        if order not in self._masks:
            self._masks[order] = self._mask(order).astype(np.float64)
        return self._masks[order]

    def _mask(self, order: str) -> Bools:
        hits = self._hits
        if order == "ideal":
            return hits.ideal <= self.k
        place = hits.list_ideal if order == "list" else hits.place
        return (hits.place > 0) & (place <= self.k)

    def _sum(self, term: Floats) -> Floats:
        if not term.size:
            return np.zeros(0)
        return np.asarray(np.add.reduceat(term, self._hits.groups.start[:-1]))


VALUES: Mapping[str, Callable[[Cut], Floats]] = {
    "precision": lambda c: c["hits"] / c.k,
    "recall": lambda c: c["hits"] / c.relevant,
    "recall_cap": lambda c: c["hits"] / c.best,
    "f1": lambda c: 2 * c["hits"] / (c.k + c.relevant),
    "hit": lambda c: np.minimum(c["hits"], 1),
    "map_all": lambda c: c["precisions"] * FINE / c.relevant,
    "map_min": lambda c: c["precisions"] * FINE / c.best,
    "map_hits": lambda c: ratio(c["precisions"] * FINE, c["hits"]),
    "map_k": lambda c: c["precisions"] * FINE / c.k,
    "mar_mean": lambda c: c.steps / (c.k * c.relevant),
    "mar_all": lambda c: c["recalls"] / c.relevant**2,
    "mar_min": lambda c: c["recalls"] / (c.relevant * c.best),
    "mrr": lambda c: c["first"],
    "arhr": lambda c: c["reciprocals"] * FINE,
    "cg": lambda c: c["gain"] * FINE,
    "dcg_bin": lambda c: c.dcg("bin") * FINE,
    "dcg_lin": lambda c: c.dcg("lin") * FINE,
    "dcg_exp": lambda c: c.dcg("exp") * FINE,
    "ndcg_bin": lambda c: c.dcg("bin") / c.ideal("bin"),
    "ndcg_lin": lambda c: c.dcg("lin") / c.ideal("lin"),
    "ndcg_exp": lambda c: c.dcg("exp") / c.ideal("exp"),
    "ndcg_bin_list": lambda c: ratio(c.dcg("bin"), c.list_ideal("bin")),
    "ndcg_lin_list": lambda c: ratio(c.dcg("lin"), c.list_ideal("lin")),
    "ndcg_exp_list": lambda c: ratio(c.dcg("exp"), c.list_ideal("exp")),
    "ndcg_bin_k": lambda c: c.dcg("bin") / (full_ideal(c.k) or math.inf),
    "rprec": lambda c: c.early / c.relevant,
}
"""Column of `list_values.sql` (or `r_precision.sql`) → its value per request."""


def list_sums(rows: Rows, model: str, metrics: Sequence[OfflineMetric]) -> dict[str, Floats]:
    """Sums per unit of the ranking metrics of one model (`unit_values.sql`), by column."""
    parts = in_threads(lambda part: _request_values(part, model, metrics), rows.parts())
    unit = np.concatenate([part.unit for part in parts])
    sums: dict[str, Floats] = {}
    for column in parts[0].values:
        values = np.concatenate([part.values[column] for part in parts])
        sums[column] = FINE * np.bincount(unit, values, minlength=rows.units).astype(np.float64)
    return sums


class _RequestValues(NamedTuple):
    """Values of the requests with a relevant item, in multiples of 1e-12, and their units."""

    unit: Integers
    values: dict[str, Floats]


def _request_values(rows: Rows, model: str, metrics: Sequence[OfflineMetric]) -> _RequestValues:
    hits = hits_of(rows, model)
    listed = listed_of(rows.requests, rows.scores[model])
    cuts = {m.cutoff: Cut(hits, listed, m.cutoff) for m in metrics}
    values = {
        cut_column(m.definition.numerator, m.cutoff): fine(
            VALUES[m.definition.numerator](cuts[m.cutoff])
        )
        for m in metrics
    }
    return _RequestValues(rows.unit[hits.request[hits.groups.start[:-1]]], values)
