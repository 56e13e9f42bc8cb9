"""Served scores: what ranked the items is not what the model says of them afterwards.

Train-serve skew (Sculley et al. 2015). Rows that another cause explains are left to it: timeouts
and fallbacks, late features, old models, what differs by position alone, and rounding.
"""

import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.causes.serving import Route, Values, values_of
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

APART = 0.01
MISSING = 0.02
DEFAULT = 0.05


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """Mismatches, missing and default values on the variant's rows that nothing else explains."""
    rows = frames["served_apart"]
    plain = rows[rows["state"] == "plain"]
    values = values_of(frames["served_values"], "variant")
    routes = [*_mismatches(case, plain, values), *_missing(case, rows), *_defaults(values)]
    clips = values is not None and values.clips
    if not routes:
        message = "Served scores: no row of the variant has both scores and no other fault"
        return Unchecked(message, ("rows with served_score and the model's own score",))
    exceeds, p_value = any_of(routes)
    seen = [route for route in routes if route.exceeds] or routes[:1]
    loss = served_loss(case, frames, "plain")
    lost = None if loss is None else loss.difference
    return Finding(
        exceeds=exceeds,
        message=f"Served scores: {'; '.join(route.words for route in seen)}.",
        evidence=(
            *(number for route in routes for number in route.evidence),
            *_by_side(case, frames),
            *([] if lost is None else [clusters.evidence("AUC lost", lost, case.alpha)]),
        ),
        threshold=APART,
        threshold_reason=f"{APART:.0%} of rows are more than .01 in log odds apart, {MISSING:.0%} "
        f"more are without a score than in control, or {DEFAULT:.0%} have one value",
        p_value=p_value,
        accounts_for=closed_by_served(case, lost, weight_of(rows, "plain")),
        remedy="Rank by the scores before they are clipped."
        if clips
        else "Log the features of a request with its score, and compare them with those of the "
        "training data.",
    )


def _mismatches(case: Case, plain: pd.DataFrame, values: Values | None) -> list[Route]:
    """Rows that are apart; all are counted, and those that a position explains are not accused."""
    apart = share(plain, "variant", "apart", "compared")
    accused = share(plain, "variant", "unexplained", "compared")
    if apart is None or accused is None:
        return []
    rounded = values is not None and values.rounds
    words = f"{apart.value:.1%} of the variant's rows were served with another score"
    if values is not None and values.clips:
        ends = ((values.capped, values.highest), (values.floored, values.lowest))
        words = " and ".join(
            f"served scores stop at {end:.4g} in {rows / values.compared:.1%} of the variant's rows"
            for rows, end in ends
            if rows
        )
    if rounded:
        words += ", by rounding"
    number = clusters.evidence("rows with another score", apart, case.alpha, case.variant)
    p_value = 1.0 if rounded else p_above(accused, APART)
    return [Route(accused.value > APART and not rounded, p_value, words, (number,))]


def _missing(case: Case, rows: pd.DataFrame) -> list[Route]:
    """Rows without a served score that did not fail, of all rows."""
    own = rows.assign(unserved=rows["unserved"].where(rows["state"] != "failed", 0))
    more = excess(own, "unserved", "impressions")
    if more is None:
        return []
    words = f"{more.value:+.1%} of rows without a served score, against control"
    number = clusters.evidence("rows without a served score", more, case.alpha, "against control")
    return [Route(more.value > MISSING, p_above(more, MISSING), words, (number,))]


def _defaults(values: Values | None) -> list[Route]:
    """One value of many rows whose own scores differ; rounding, caps, few own values excepted."""
    if values is None or values.rounds or values.clips or values.compared == 0:
        return []
    most, own = values.served_most / values.compared, values.own_most / values.compared
    exceeds = most > DEFAULT and most > 2 * own
    words = f"{most:.1%} of the variant's rows have the same served score"
    number = Evidence("rows with the most frequent served score", most)
    return [Route(exceeds, 0.0 if exceeds else 1.0, words, (number,))]


def _by_side(case: Case, frames: Frames) -> list[Evidence]:
    rows, known = frames["served_apart"], []
    for side, variant in (("control", case.control), ("variant", case.variant)):
        apart = share(rows, side, "apart", "compared")
        known.append(clusters.evidence("all rows with another score", apart, case.alpha, variant))
        values = values_of(frames["served_values"], side)
        if values is not None:
            correlation = values.rank_correlation
            known.append(Evidence("rank correlation", correlation, where=variant))
    return known


CHECK = CauseCheck(
    "served_score",
    judge,
    queries=("served_apart", "served_values", "pairs:served"),
    columns=("served_score", "baseline", "candidate"),
    shows="whether the score that ranked is the model's own",
)
