"""Leakage: offline, the model knows what nobody knows at the request.

A feature or a history from after the request, or a column that alone nearly tells the click
(Kaufman et al. 2012). An AUC that falls on the model's own lists is no sign of it: choosing the top
narrows the range of the score.
"""

import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.causes.serving import Route
from abeval.agreement.clusters import any_of, closed_by_served, p_above, served_loss, share, single

LATE = 0.01
TELLS = 0.95
_NEEDS = ("agreement.feature_time", "agreement.features")


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """Times of features, and single features."""
    routes = [*_late(case, frames["late_features"]), *_telling(case, frames)]
    if not routes:
        message = (
            "Leakage: feature_time would show features from after the request, features a column "
            "that tells the click"
        )
        return Unchecked(message, _NEEDS)
    exceeds, p_value = any_of(routes)
    seen = [route for route in routes if route.exceeds] or routes
    loss = served_loss(case, frames, "late") or served_loss(case, frames, "plain")
    return Finding(
        exceeds=exceeds,
        message=f"Leakage: {'; '.join(route.words for route in seen)}.",
        evidence=tuple(number for route in routes for number in route.evidence),
        threshold=LATE,
        threshold_reason=f"{LATE:.0%} of rows with a feature from after the request, or a feature "
        f"whose AUC alone is above {TELLS}",
        p_value=p_value,
        accounts_for=None if loss is None else closed_by_served(case, loss.difference),
        remedy="Join features as they were at the request, drop what is written after it, and "
        "train again.",
    )


def _late(case: Case, rows: pd.DataFrame) -> list[Route]:
    """The share of rows whose newest feature is later than the request."""
    both = rows.assign(side="both")
    late = share(both, "both", "late", "known")
    if late is None:
        return []
    words = f"{late.value:.1%} of rows have a feature from after the request"
    number = clusters.evidence("rows with a later feature", late, case.alpha)
    return [Route(late.value > LATE, p_above(late, LATE), words, (number,))]


def _telling(case: Case, frames: Frames) -> list[Route]:
    """The feature that alone orders clicks best, either way round, on control's traffic."""
    rows = frames["single_pairs:features"]
    known = {}
    for name in sorted(set(rows["part"])):
        own = single(rows, case.control, name)
        if own is not None:
            known[name] = own if own.value >= 0.5 else own._replace(value=1 - own.value)
    if not known:
        return []
    best = max(known, key=lambda name: known[name].value)
    words = f"{best} alone has an AUC of {known[best].value:.3f}"
    p_value = min(1.0, p_above(known[best], TELLS) * len(known))
    numbers = tuple(
        clusters.evidence("AUC of a feature alone", own, case.alpha, name)
        for name, own in known.items()
    )
    return [Route(known[best].value > TELLS, p_value, words, numbers)]


CHECK = CauseCheck(
    "leakage",
    judge,
    queries=("late_features", "single_pairs:features", "pairs:served"),
    columns=("baseline", "candidate"),
    shows="whether the candidate knows what nobody knows at the request",
)
