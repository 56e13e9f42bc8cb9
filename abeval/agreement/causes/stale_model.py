"""Stale model: the variant is served by an older model than control, or than its own."""

import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.causes.serving import Route
from abeval.agreement.clusters import (
    any_of,
    closed_by_served,
    excess,
    p_above,
    served_loss,
    share,
    weight_of,
)
from abeval.results.agreement import Evidence

OLDER_HOURS = 24.0
FLAGGED = 0.02
_HOUR_MS = 3_600_000.0
_NEEDS = ("agreement.model_time", "stale")


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """The age of the models that served, and rows that the server called stale."""
    rows = frames["versions"]
    routes = [*_older(case, rows), *_flagged(case, rows)]
    if not routes:
        listed = " and ".join(_NEEDS)
        return Unchecked(f"Stale model: {listed} would show how old the served models were", _NEEDS)
    exceeds, p_value = any_of(routes)
    seen = [route for route in routes if route.exceeds] or routes[:1]
    return Finding(
        exceeds=exceeds,
        message=f"Stale model: {'; '.join(route.words for route in seen)}.",
        evidence=(*(n for route in routes for n in route.evidence), *_versions(case, rows)),
        threshold=OLDER_HOURS,
        threshold_reason=f"{OLDER_HOURS:.0f} hours older than control's on average, or "
        f"{FLAGGED:.0%} more stale rows",
        p_value=p_value,
        accounts_for=_closed(case, frames),
        remedy="Update the variant's model as often as control's, and judge the effect afterwards.",
    )


def _older(case: Case, rows: pd.DataFrame) -> list[Route]:
    ages = rows.assign(hours=rows["age_ms"].fillna(0.0).astype(float) / _HOUR_MS)
    older = excess(ages, "hours", "age_known")
    if older is None:
        return []
    hours = [share(ages, side, "hours", "age_known") for side in ("control", "variant")]
    sides = clusters.by_side("hours since training", hours, case)
    words = f"the variant's model is {older.value:.0f} hours older than control's"
    p_value = p_above(older, OLDER_HOURS)
    return [Route(older.value > OLDER_HOURS, p_value, words, sides)]


def _flagged(case: Case, rows: pd.DataFrame) -> list[Route]:
    more = excess(rows, "stale", "stale_known")
    if more is None:
        return []
    words = f"{more.value:+.1%} of rows are stale, against control"
    number = clusters.evidence("stale rows", more, case.alpha, "against control")
    return [Route(more.value > FLAGGED, p_above(more, FLAGGED), words, (number,))]


def _versions(case: Case, rows: pd.DataFrame) -> tuple[Evidence, ...]:
    known = rows.dropna(subset=["model_version"])
    return tuple(
        Evidence("versions of the model", float(own["model_version"].nunique()), where=variant)
        for side, variant in (("control", case.control), ("variant", case.variant))
        if not (own := known[known["side"] == side]).empty
    )


def _closed(case: Case, frames: Frames) -> float | None:
    """What judging the candidate by its served scores on old rows takes from its difference."""
    if "served_apart" not in frames:
        return None
    loss = served_loss(case, frames, "old")
    weight = weight_of(frames["served_apart"], "old")
    return None if loss is None else closed_by_served(case, loss.difference, weight)


CHECK = CauseCheck(
    "stale_model", judge, queries=("versions",), shows="how old the served models were"
)
