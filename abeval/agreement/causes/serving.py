"""Serving: timeouts, fallbacks, empty answers and latency of the variant against control's."""

import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.clusters import any_of, excess, p_above, share
from abeval.agreement.days import online_row
from abeval.agreement.gap import closed_online
from abeval.stats.records import Estimate

MORE = 0.02
SLOWER = 0.25
_FLAGS = ("timeout", "fallback", "empty")
_NEEDS = ("timeout", "fallback", "agreement.empty", "agreement.latency")


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """The share of rows that were not served as meant, and how long the answers took."""
    rows = frames["serving"]
    routes = [route for flag in _FLAGS for route in _flagged(case, rows, flag)]
    routes += _slower(case, rows)
    if not routes:
        listed = ", ".join(_NEEDS)
        return Unchecked(f"Serving: {listed} would show how the variants were served", _NEEDS)
    exceeds, p_value = any_of(routes)
    seen = [route for route in routes if route.exceeds] or routes[:1]
    return Finding(
        exceeds=exceeds,
        message=f"Serving: {'; '.join(route.words for route in seen)}.",
        evidence=tuple(number for route in routes for number in route.evidence),
        threshold=MORE,
        threshold_reason=f"{MORE:.0%} of rows more than in control have a fault, or answers take "
        f"{SLOWER:.0%} longer",
        p_value=p_value,
        accounts_for=_closed(case, rows),
        remedy="Mend what fails when the variant is served, and judge the effect afterwards.",
    )


def _flagged(case: Case, rows: pd.DataFrame, flag: str) -> list[Route]:
    more = excess(rows, flag, f"{flag}_known")
    if more is None:
        return []
    shares = [share(rows, side, flag, f"{flag}_known") for side in ("control", "variant")]
    sides = clusters.by_side(f"rows with {flag}", shares, case)
    words = f"{flag}: {sides[1].value:.1%} of the variant's rows, {sides[0].value:.1%} of control's"
    return [Route(more.value > MORE, p_above(more, MORE), words, sides)]


def _slower(case: Case, rows: pd.DataFrame) -> list[Route]:
    mean = [share(rows, s, "latency_thousandths", "latency_known") for s in ("control", "variant")]
    if mean[0] is None or mean[1] is None or mean[0].value <= 0:
        return []
    before, after = mean[0].value, mean[1].value
    variance = mean[1].variance / before**2 + mean[0].variance * (after / before**2) ** 2
    longer = Estimate(after / before - 1, variance, mean[0].units + mean[1].units, mean[1].df)
    words = f"answers of the variant take {longer.value:+.0%} longer"
    number = clusters.evidence("latency against control's", longer, case.alpha, case.variant)
    return [Route(longer.value > SLOWER, p_above(longer, SLOWER), words, (number,))]


def _closed(case: Case, rows: pd.DataFrame) -> float | None:
    """The effect on clicks per impression among rows that were served as meant."""
    whole = online_row(case)
    rates = [share(rows, side, "healthy_clicks", "healthy") for side in ("control", "variant")]
    if whole is None or whole.lift is None or rates[0] is None or rates[1] is None:
        return None
    if whole.metric != "ctr" or rates[0].value <= 0:
        return None
    return closed_online(case, whole.lift, rates[1].value / rates[0].value - 1)


CHECK = CauseCheck("serving", judge, queries=("serving",), shows="how the variants were served")
