"""Leakage: offline, the model knows what nobody knows at the request.

A feature or a history from after the request, a column that alone nearly tells the click, or an
offline AUC that the same model does not reach on what it served (Kaufman et al. 2012).
"""

import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.limits import (
    Route,
    any_of,
    closed_by_served,
    p_above,
    served_loss,
    share,
)
from abeval.agreement.stratified import single, stratified
from abeval.stats.records import Estimate

LATE = 0.01
TELLS = 0.95
FALLS = 0.1
_NEEDS = ("agreement.feature_time", "agreement.features", "agreement.served_score")


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """Times of features and single features; without them, how far the served AUC falls."""
    direct = [*_late(case, frames["late_features"]), *_telling(case, frames)]
    routes = direct or _falling(case, frames)
    if not routes:
        message = (
            "Leakage: feature_time would show features from after the request, features a column "
            "that tells the click, served_score an AUC that is not reached online"
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
        threshold_reason=f"{LATE:.0%} of rows with a feature from after the request, a feature "
        f"whose AUC alone is above {TELLS}, or (without both columns) an AUC that is "
        f"{FALLS} lower on served traffic",
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


def _falling(case: Case, frames: Frames) -> list[Route]:
    """AUC of the candidate on control's traffic less that of what it served; only a hint."""
    offline, served = _offline(case, frames), served_loss(case, frames, "plain")
    if offline is None or served is None:
        return []
    fall = clusters.difference(served.candidate, offline)
    words = (
        f"the candidate's AUC is {offline.value:.3f} on control's traffic and "
        f"{served.candidate.value:.3f} as served on its own"
    )
    number = clusters.evidence("AUC offline less AUC as served", fall, case.alpha)
    return [Route(fall.value > FALLS, p_above(fall, FALLS), words, (number,))]


def _offline(case: Case, frames: Frames) -> Estimate | None:
    """The candidate's AUC on control's rows, without those that it learned from."""
    if "pairs:learned" not in frames:
        return case.estimate("auc", case.candidate, case.control)
    new = stratified(frames["pairs:learned"], case.control, "new")
    return None if new is None else new.candidate


CHECK = CauseCheck(
    "leakage",
    judge,
    queries=("late_features", "single_pairs:features", "pairs:served"),
    columns=("baseline", "candidate"),
    shows="whether the candidate knows what nobody knows at the request",
)
