"""Eligibility: GAUC counts only units with clicks and non-clicks; other units in each variant.

A candidate whose lists are clicked by more units is judged on units that control's GAUC leaves out.
"""

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.results.replay import ReplayRow
from abeval.stats.records import Estimate

LARGEST = 0.05
METRIC = "gauc[impressions]"


def judge(case: Case, _: Frames) -> Finding | Unchecked:
    """The share of units that have a GAUC, by variant."""
    rows = (_row(case, v, m) for v, m in _served(case))
    shares = [None if row is None else _share(row) for row in rows]
    if shares[0] is None or shares[1] is None:
        message = "Eligibility: the replay has no GAUC of both models on their own traffic"
        return Unchecked(message, (f"{METRIC} in the replay",))
    change = clusters.difference(shares[0], shares[1])
    return Finding(
        exceeds=_explains(case) and abs(change.value) >= LARGEST,
        message=f"Eligibility: {shares[1].value:.1%} of the variant's units have both clicks and "
        f"non-clicks, and {shares[0].value:.1%} of control's; GAUC is of these.",
        evidence=(
            *clusters.by_side("share of units in GAUC", shares, case),
            clusters.evidence("difference", change, case.alpha),
        ),
        threshold=LARGEST,
        threshold_reason="what is explained is of GAUC, and the shares differ by 5 points or more",
        p_value=clusters.p_value(change),
        accounts_for=None,
        remedy="Read AUC and `gauc[impressions,half]`, which count every unit.",
    )


def _explains(case: Case) -> bool:
    """AUC counts every unit: who has a GAUC explains nothing of it."""
    return case.gap is None or case.gap.offline.startswith("gauc")


def _served(case: Case) -> tuple[tuple[str, str], ...]:
    return ((case.control, case.baseline), (case.variant, case.candidate))


def _row(case: Case, traffic: str, model: str) -> ReplayRow | None:
    rows = () if case.replay is None else case.replay.rows
    key = (METRIC, model, traffic)
    return next((row for row in rows if (row.metric, row.model, row.traffic) == key), None)


def _share(row: ReplayRow) -> Estimate | None:
    """Of all units of the traffic; binomial."""
    out = dict(row.left_out).get("single_class_units")
    if row.units < 2 or out is None:
        return None
    share = 1 - out / row.units
    return Estimate(share, share * (1 - share) / row.units, row.units, row.units - 1.0)


CHECK = CauseCheck("eligibility", judge)
