"""Position: clicks follow the place of an item, so a model looks good on lists that it ordered.

On its own traffic a model put above what it scores high, and there is more clicked. Compared only
among rows of one position, the models meet on even terms (Craswell et al. 2008; COEC: Zhang and
Jones 2007).
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked, spread
from abeval.agreement.gap import closed_offline
from abeval.agreement.stratified import stratified
from abeval.results.agreement import Evidence
from abeval.stats.records import Estimate

HALF = 0.5


class _Differences(NamedTuple):
    """Candidate minus baseline on control's and on the variant's traffic."""

    control: Estimate
    variant: Estimate

    @property
    def mean(self) -> float:
        """Over both traffics."""
        return (self.control.value + self.variant.value) / 2

    @property
    def interaction(self) -> Estimate:
        """How much better the candidate does on its own traffic than on control's."""
        return clusters.difference(self.control, self.variant)


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """Whether comparing within positions changes what the models' difference says."""
    raw = _raw(case)
    within = [stratified(frames["pairs:position"], v) for v in (case.control, case.variant)]
    if raw is None or within[0] is None or within[1] is None:
        needs = ("clicks at several positions of both variants",)
        return Unchecked("position: there is no AUC of both models within positions", needs)
    even = _Differences(within[0].difference, within[1].difference)
    own_traffic, changed = _by_own_traffic(raw, even), _by_change(raw, even)
    exceeds = own_traffic.exceeds or changed.exceeds
    return Finding(
        exceeds=exceeds,
        message=_message(raw, even, exceeds),
        evidence=(
            *(
                clusters.evidence("AUC difference within positions", estimate, case.alpha, where)
                for where, estimate in ((case.control, even.control), (case.variant, even.variant))
            ),
            clusters.evidence("AUC difference", raw.control, case.alpha, case.control),
            clusters.evidence("AUC difference", raw.variant, case.alpha, case.variant),
            *_coec(case, frames["positions"]),
        ),
        threshold=HALF,
        threshold_reason="at least half of what favours a model on its own traffic, or of its "
        "difference, is gone within positions",
        p_value=min(1.0, 2 * min(own_traffic.p_value, changed.p_value)),
        accounts_for=closed_offline(case, raw.control.value, even.control.value),
        remedy="Compare models within positions, or on traffic whose order is random; do not "
        "compare AUC on lists that one of them ordered.",
    )


class _Route(NamedTuple):
    exceeds: bool
    p_value: float


def _by_own_traffic(raw: _Differences, even: _Differences) -> _Route:
    """Each model does better on the lists that it ordered, and less so within positions."""
    before, after = raw.interaction, even.interaction
    exceeds = before.value > 0 and after.value <= HALF * before.value
    return _Route(exceeds, clusters.p_value(before) if before.value > 0 else 1.0)


def _by_change(raw: _Differences, even: _Differences) -> _Route:
    """The difference itself is of positions; both variances as if fully dependent, to be safe."""
    spreads = [(a.variance**0.5 + b.variance**0.5) ** 2 for a, b in zip(raw, even, strict=True)]
    change = Estimate(even.mean - raw.mean, sum(spreads) / 4, raw.control.units, raw.control.df)
    return _Route(abs(change.value) >= HALF * abs(raw.mean), clusters.p_value(change))


def _raw(case: Case) -> _Differences | None:
    known = []
    for traffic in (case.control, case.variant):
        pair = case.pair("auc", traffic)
        if pair is None:
            return None
        known.append(spread(pair.difference, pair.low, pair.high, pair.units, case.alpha))
    return None if None in known else _Differences(*(e for e in known if e is not None))


def _message(raw: _Differences, even: _Differences, exceeds: bool) -> str:
    numbers = (
        f"the candidate's AUC differs by {raw.control.value:+.3f} on control's traffic and "
        f"{raw.variant.value:+.3f} on its own; within positions by {even.control.value:+.3f} and "
        f"{even.variant.value:+.3f}"
    )
    return f"Position: {numbers}: {'clicks follow position' if exceeds else 'no such effect'}."


def _coec(case: Case, positions: pd.DataFrame) -> tuple[Evidence, ...]:
    """Clicks over the clicks expected at the same positions of both variants together."""
    sums = positions.groupby("position")[["clicks", "impressions"]].sum()
    rate = sums["clicks"] / sums["impressions"]
    expected = positions.assign(
        expected=positions["impressions"] * positions["position"].map(rate).astype(float)
    )
    by_cluster = expected.groupby(["variant", "cluster"], as_index=False)[["clicks", "expected"]]
    totals = by_cluster.sum()
    of_variants = []
    for variant in (case.control, case.variant):
        own = totals[totals["variant"] == variant]
        above, below = (own[c].to_numpy(dtype=np.float64) for c in ("clicks", "expected"))
        estimate = clusters.ratio(above, below)
        of_variants.append(
            clusters.evidence("clicks over expected clicks", estimate, case.alpha, variant)
        )
    return tuple(of_variants)


CHECK = CauseCheck(
    "position",
    judge,
    queries=("pairs:position", "positions"),
    columns=("position", "baseline", "candidate"),
    shows="whether clicks follow position rather than the models",
)
