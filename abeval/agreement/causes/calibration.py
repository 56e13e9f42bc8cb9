"""Calibration: the candidate orders better, but its scores are no longer click rates.

Where scores are used as numbers (bids, thresholds, blends of scores), a better AUC can be bought
with scores that are too high (Yi et al. 2013). Q is Σ score / Σ clicks, 1 if calibrated. Scores
that are too low are no sign of it: so are those of every model on lists that another one chose.
"""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.results.agreement import Evidence
from abeval.stats.records import Estimate

LARGEST = 0.1
NANO = 1e-9
LEAST_CLICKS = 100
"""Days and positions with fewer clicks are not looked at one by one."""


def judge(case: Case, frames: Frames) -> Finding | Unchecked:
    """The served models' distance from Q = 1, each on its own traffic."""
    before = case.estimate("q_ctr", case.baseline, case.control)
    after = case.estimate("q_ctr", case.candidate, case.variant)
    if before is None or after is None or min(before.value, after.value) <= 0:
        needs = ("scores of both models that are probabilities", "q_ctr in the replay")
        return Unchecked("Calibration: the scores are no probabilities, so there is no Q", needs)
    worse = clusters.difference(_distance(before), _distance(after))
    early = case.estimate("q_ctr", case.candidate, case.control)
    return Finding(
        exceeds=after.value > 1 and worse.value >= LARGEST,
        message=f"Calibration: Q (scores over clicks) is {after.value:.3f} for the candidate and "
        f"{before.value:.3f} for the baseline, each on its own traffic.",
        evidence=(
            clusters.evidence("Q of the baseline", before, case.alpha, case.control),
            clusters.evidence("Q of the candidate", after, case.alpha, case.variant),
            clusters.evidence("Q of the candidate", early, case.alpha, case.control),
            clusters.evidence("how much further from 1, in logs", worse, case.alpha),
            *_furthest(case, frames, "day", "days"),
            *_furthest(case, frames, "position", "positions"),
            *_furthest_cells(case),
        ),
        threshold=LARGEST,
        threshold_reason="the candidate's Q is above 1, and further from it than the baseline's by "
        "10 % or more",
        p_value=clusters.p_value(worse) if worse.value > 0 else 1.0,
        accounts_for=None,
        remedy="Calibrate the candidate's scores (isotonic or Platt) on recent traffic, and run "
        "the experiment again.",
    )


def _distance(q: Estimate) -> Estimate:
    """|ln Q|, by the delta method."""
    return Estimate(abs(math.log(q.value)), q.variance / q.value**2, q.units, q.df)


def _furthest(case: Case, frames: Frames, column: str, name: str) -> Iterator[Evidence]:
    """The day or position on which each served model is furthest from 1."""
    if name not in frames:
        return
    for variant, model in ((case.control, "baseline"), (case.variant, "candidate")):
        rows = frames[name]
        cells = [
            (str(cell), q)
            for cell, own in rows[rows["variant"] == variant].groupby(column)
            if (q := _q(own, model)) is not None
        ]
        if cells:
            cell, q = max(cells, key=lambda known: abs(math.log(known[1].value)))
            where = f"{variant}, {column} {cell}"
            yield clusters.evidence(f"Q of the {model}, furthest from 1", q, case.alpha, where)


def _furthest_cells(case: Case) -> Iterator[Evidence]:
    """The cell of `[cuts]` in which each served model is furthest from 1."""
    cut_rows = () if case.replay is None else case.replay.cut_rows
    for traffic, model in ((case.control, case.baseline), (case.variant, case.candidate)):
        own = (r for r in cut_rows if (r.metric, r.model, r.traffic) == ("q_ctr", model, traffic))
        known = [row for row in own if row.value and row.counted >= LEAST_CLICKS]
        if known:
            worst = max(known, key=lambda row: abs(math.log(row.value or 1.0)))
            served = "baseline" if traffic == case.control else "candidate"
            name = f"Q of the {served}, furthest from 1"
            where = f"{traffic}, {worst.cut} {worst.cell}"
            yield Evidence(name, worst.value, worst.low, worst.high, where)


def _q(rows: pd.DataFrame, model: str) -> Estimate | None:
    clicks = rows[f"{model}_clicks"].fillna(0).to_numpy(dtype=np.float64)
    scores = rows[f"{model}_nanos"].fillna(0).to_numpy(dtype=np.float64) * NANO
    enough = clicks.sum() >= LEAST_CLICKS and scores.sum() > 0
    return clusters.ratio(scores, clicks) if enough else None


CHECK = CauseCheck(
    "calibration",
    judge,
    queries=("days", "positions"),
    columns=("baseline", "candidate"),
    shows="whether scores are still click rates",
)
