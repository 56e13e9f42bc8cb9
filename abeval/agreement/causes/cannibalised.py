"""Gains taken from elsewhere: what the treated part of the traffic gains, the rest loses."""

from typing import NamedTuple

import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.clusters import excess, share
from abeval.agreement.days import online_row
from abeval.agreement.gap import closed_online
from abeval.stats.records import Estimate

PART = 0.25


class _Changes(NamedTuple):
    """The variant's clicks minus control's, as shares of all clicks of control."""

    here: Estimate
    elsewhere: Estimate
    whole: Estimate


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """Clicks where the treatment acts, elsewhere, and all together: per unit and per impression."""
    rows = frames["treated"].assign(all=lambda r: r["here"] + r["elsewhere"])
    per_unit, per_row = _changes(rows, "units"), _changes(rows, "impressions")
    if per_unit is None or per_row is None:
        message = "Cannibalised: the treatment acts on all of the traffic, or on none of it"
        return Unchecked(message, ("clicks of control inside and outside of agreement.treated",))
    shown = excess(rows, "impressions", "units")
    moved = shown is not None and clusters.p_value(shown) <= case.alpha
    changes = per_unit if moved else per_row
    here, elsewhere, whole = changes
    taken = -elsewhere.value / here.value if here.value else 0.0
    return Finding(
        exceeds=here.value > 0 and taken > PART,
        message=f"Cannibalised: clicks change by {here.value:+.1%} of all clicks where the "
        f"treatment acts, by {elsewhere.value:+.1%} elsewhere, and by {whole.value:+.1%} together.",
        evidence=tuple(
            clusters.evidence(f"change {where}", change, case.alpha, per)
            for per, own in (("per impression", per_row), ("per unit", per_unit))
            for where, change in zip(_WHERE, own, strict=True)
        ),
        threshold=PART,
        threshold_reason="elsewhere loses a quarter or more of what the treated part gains; per "
        "unit if the number of impressions changes, else per impression of all scenes",
        p_value=_p(here, elsewhere),
        accounts_for=_closed(case, here.value),
        remedy="Judge the treatment by all scenes together, not by its own.",
    )


_WHERE = ("where the treatment acts", "elsewhere", "of all clicks together")


def _changes(rows: pd.DataFrame, per: str) -> _Changes | None:
    """Of clicks per unit or per impression of all scenes; None without clicks on both sides."""
    base = share(rows, "control", "all", per)
    changes = [excess(rows, of, per) for of in ("here", "elsewhere", "all")]
    own = rows[rows["side"] == "control"]
    if base is None or not own["here"].sum() or not own["elsewhere"].sum():
        return None
    scaled = [_scaled(change, base.value) for change in changes if change is not None]
    return _Changes(*scaled) if len(scaled) == len(changes) else None


def _scaled(change: Estimate, base: float) -> Estimate:
    return Estimate(change.value / base, change.variance / base**2, change.units, change.df)


def _p(here: Estimate, elsewhere: Estimate) -> float:
    """A gain and a loss both have to differ from zero, so the larger p-value counts."""
    opposite = here.value > 0 > elsewhere.value
    return max(clusters.p_value(here), clusters.p_value(elsewhere)) if opposite else 1.0


def _closed(case: Case, lift: float) -> float | None:
    """The effect if only the treated part had changed."""
    whole = online_row(case)
    if whole is None or whole.lift is None:
        return None
    return closed_online(case, whole.lift, lift)


CHECK = CauseCheck(
    "cannibalised",
    judge,
    queries=("treated",),
    columns=("treated",),
    shows="whether gains were taken from where the treatment does not act",
)
