"""Compute the lift of clicks at each level, from the promise to the outcome.

Each level is the click rate computed again: in the candidate's order, without rows that a model
learned from, of the variant's candidates, in the order of the served score, as shown, with clicks
that were lost, without failed requests, and all. Errors are by the jackknife over parts of the
units, with the chances to be shown fitted anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from abeval.agreement.selection import Chances, RankedCandidates, fit_chances, list_value
from abeval.stats.records import Floats

# Few, because the chances to be shown are fitted again without each part.
PARTS = 16
"""Parts of the units, each left out in turn; also in the queries."""

SURE = 1e-3
"""A fault that is less sure is not taken out of the rows of which the promise is computed."""

_LEAST_SHARE = 0.05

_LEVELS = ("naive", "promised", "new", "supplied", "served", "kept", "acted", "here", "came")
"""Counterfactuals, from what the log says at face value to what came (`Levels`)."""

# A limit to how many lacked rows the few that are left may stand for.
_MOST_LACKED = 20.0

Sums = Mapping[str, Floats]
"""Column of `queries/agreement/ranked_cells` → sums by part and ranks, shape (PARTS, BINS, …)."""


class Faults(NamedTuple):
    """Say of what a variant has too little: the share, its p-value, and where.

    `error` is the standard error of the share, where it is known.
    """

    share: float = 0.0
    p_value: float = 1.0
    where: tuple[str, ...] = ()
    error: float = 0.0

    @property
    def is_sure(self) -> bool:
        """Tell whether a notable share is gone beyond doubt."""
        return self.share >= _LEAST_SHARE and self.p_value < SURE


@dataclass(frozen=True)
class Levels:
    """The lift of clicks per impression at each level, as a share of control's.

    `naive`: the candidate's order, if all positions were seen alike; `promised`: as they are seen;
    `new`: without rows that it learned from; `supplied`: of the variant's candidates; `served`: in
    the order of the served score; `kept`: as shown, with clicks that were lost; `acted`: without
    these; `here`: with failed requests; `came`: with what happened where no model ranks.

    Attributes:
        lifts: Level → lifts, shape (1 + PARTS,): of all units, then without each part.
        supply: Of which items the variant shows fewer than control's rows let expect.
        labels: In which categories clicks of the variant are lost.
        misfit: How far the same method misses control's own clicks, as a share of them.
    """

    lifts: Mapping[str, Floats]
    supply: Faults
    labels: Faults
    misfit: float


@dataclass(frozen=True)
class Ranks:
    """Rows of both variants by ranks of scores, of some of the units.

    Attributes:
        control: Sums by (baseline, candidate).
        variant: Sums by (baseline, candidate, served).
        sides: Impressions, clicks, and clicks where the model ranks, of control and the variant.
    """

    control: Sums
    variant: Sums
    sides: Floats

    @property
    def rows(self) -> tuple[float, float]:
        """Return the ranked rows of control and of the variant."""
        return float(self.control["impressions"].sum()), float(self.variant["impressions"].sum())

    def fit(self, start: Floats | None = None) -> Chances:
        """Fit the chances to be shown."""
        return fit_chances(self.control["items"], self.variant["items"], self.rows, start)

    def add_parts(self, without: int | None = None) -> "Ranks":
        """Add up sums that have a leading axis of parts, perhaps without one of them."""

        def add(sums: Floats) -> Floats:
            total: Floats = sums.sum(axis=0)
            return total if without is None else total - sums[without]

        return Ranks(
            control={name: add(sums) for name, sums in self.control.items()},
            variant={name: add(sums) for name, sums in self.variant.items()},
            sides=add(self.sides),
        )


def jackknife_levels(
    parts: Ranks, unlearned: Ranks, chances: Chances, supply: Faults, labels: Faults
) -> Levels:
    """Compute all levels of all units, and without each part.

    `chances` are those of all units; `unlearned` is `parts` where no model learned from a row.
    """
    rows = list[dict[str, float]]()
    for part in (None, *range(PARTS)):
        ranks = parts.add_parts(without=part)
        fresh = ranks if unlearned is parts else unlearned.add_parts(without=part)
        # The fit of all units is so near that one start is enough.
        fit = chances if part is None else fresh.fit(chances.fit)
        rows.append(_compute_levels(ranks, fresh, fit, is_short=supply.is_sure))
    lifts = {name: np.array([row[name] for row in rows]) for name in _LEVELS}
    return Levels(lifts, supply, labels, abs(rows[0]["misfit"]))


def _compute_levels(
    ranks: Ranks, fresh: Ranks, chances: Chances, *, is_short: bool
) -> dict[str, float]:
    """Compute all levels, and the misfit of control's own order.

    All are shares of control's clicks. `fresh` are the rows that no model learned from: `ranks`
    where that is all of them.

    `is_short` says that the variant's candidates are not those of control.
    """
    control, variant, (shown, clicks, here) = ranks.control, ranks.variant, ranks.sides.T
    rows = ranks.rows
    rate = control["clicks"].sum() / rows[0]
    # Control's clicks where the model ranks, as a share of all of its clicks.
    share = control["clicks"].sum() / clicks[0]
    seen = _order_by_baseline(ranks, chances, "seen")

    def lift(candidates: RankedCandidates, among: Ranks, seen: RankedCandidates = seen) -> float:
        # Rows that were not learned may be of other days, so they are compared among themselves.
        usual = among.control["clicks"].sum() / among.rows[0]
        return float(share * (list_value(candidates, seen) / usual - 1))

    new = lift(_unite(fresh, chances, axis=1), fresh)
    rates = here / shown / (clicks[0] / shown[0])
    return {
        "naive": lift(
            _unite(ranks, chances, axis=1, column="clicks"),
            ranks,
            _order_by_baseline(ranks, chances, "impressions"),
        ),
        "promised": new if fresh is ranks else lift(_unite(ranks, chances, axis=1), ranks),
        "new": new,
        "supplied": lift(_weigh(fresh, chances, axis=1), fresh) if is_short else new,
        "served": lift(_weigh(fresh, chances, axis=2), fresh),
        "kept": share * (float(variant["kept"].sum()) / rows[1] / rate - 1),
        "acted": share * (float(variant["clicks"].sum()) / rows[1] / rate - 1),
        "here": float(rates[1] - rates[0]),
        "came": float(clicks[1] / shown[1] / (clicks[0] / shown[0]) - 1),
        "misfit": lift(_unite(ranks, chances, axis=0), ranks),
    }


def _unite(
    ranks: Ranks, chances: Chances, *, axis: int, column: str = "relevance"
) -> RankedCandidates:
    """Return all candidates by the rank of a score.

    It is the baseline's for axis 0, the candidate's for 1.

    They are what control shows, and, from the variant's log, what control does not.
    """
    control, variant, rows = ranks.control, ranks.variant, ranks.rows
    shown = np.stack([control["impressions"], control[column]]) / rows[0]
    # Control's own rows hold what it shows, so the variant's log adds only the rest.
    unseen = (1 - chances.control)[:, None]
    # A row stands for all candidates like it, shown or not (Horvitz and Thompson 1952).
    weight = 1 / chances.variant / rows[1]
    theirs = "clicks" if column == "clicks" else "items_relevance"
    hidden = np.stack([unseen * (variant[name] @ weight) for name in ("items", theirs)])
    # Of items that the variant lacks, as much is unseen as of others with the same score.
    totals = np.stack([control["impressions"], control["relevance"]]).sum(axis=1)
    kept = np.stack([control["items"], control["items_relevance"]]).sum(axis=1)
    more = np.minimum(totals / np.maximum(kept, 1e-9), _MOST_LACKED)
    return RankedCandidates(*(shown + hidden * more[:, None, :]).sum(axis=2 - axis))


def _order_by_baseline(ranks: Ranks, chances: Chances, column: str) -> RankedCandidates:
    """Return candidates by the baseline's rank, and how often control shows them."""
    items = _unite(ranks, chances, axis=0).items
    return RankedCandidates(items, ranks.control[column].sum(axis=1) / ranks.rows[0])


def _weigh(ranks: Ranks, chances: Chances, *, axis: int) -> RankedCandidates:
    """Return the variant's candidates by the rank of a score.

    It is the candidate's for axis 1, the served score for 2.
    """
    weight = 1 / chances.variant / ranks.rows[1]
    axes = tuple({0, 1, 2} - {axis})
    names = ("impressions", "relevance")
    return RankedCandidates(*((weight * ranks.variant[name]).sum(axis=axes) for name in names))
