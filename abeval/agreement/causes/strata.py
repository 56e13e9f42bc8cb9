"""Causes that show in AUC within strata: positions, exploration, days, rows that were learned."""

import numpy as np
import pandas as pd

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseWords, Finding, Unchecked
from abeval.agreement.clusters import p_above, share, single, stratified
from abeval.results.agreement import Evidence
from abeval.stats.records import Estimate, Floats

HALF = 0.5
DRIFTS = 0.03
LEAST_DAYS = 4
SHARE = 0.01
FALLS = 0.05
_MODELS = ("baseline", "candidate")


@CauseWords(
    HALF,
    "at least half of the models' difference on control's traffic is gone within positions",
    "Compare models within positions, or on traffic whose order is random; do not compare AUC "
    "on lists that one of them ordered.",
    queries=("pairs:position", "positions"),
    columns=("position", *_MODELS),
    shows="whether clicks follow position rather than the models",
)
def position(case: Case) -> Finding | Unchecked:
    """Compare the models among rows of one position: how much of their difference is gone.

    A model puts what it scores high on top, where more is clicked (Craswell et al. 2008).
    """
    traffics = (case.control, case.variant)
    raw, own_raw = (case.difference("auc", traffic) for traffic in traffics)
    within, own = (stratified(case.rows("pairs:position"), traffic) for traffic in traffics)
    if raw is None or own_raw is None or within is None or own is None:
        needs = ("clicks at several positions of both variants",)
        return Unchecked("Position: there is no AUC of both models within positions", needs)
    even, own_even = within.difference, own.difference
    change = clusters.change_on_same(raw, even)
    return Finding(
        exceeds=abs(change.value) >= HALF * abs(raw.value),
        message=f"Position: the candidate's AUC differs by {raw.value:+.3f} on control's "
        f"traffic and {own_raw.value:+.3f} on its own; within positions by {even.value:+.3f} and "
        f"{own_even.value:+.3f}.",
        evidence=(
            *case.sides("AUC difference within positions", even, own_even),
            *case.sides("AUC difference", raw, own_raw),
            *_coec(case),
        ),
        p_value=clusters.p_value(change),
        accounts_for=case.closed_offline(raw.value, even.value),
    )


def _coec(case: Case) -> tuple[Evidence, ...]:
    """Return clicks over those expected at their positions (COEC: Zhang and Jones 2007)."""
    rows = case.rows("positions")
    sums = rows.groupby("position")[["clicks", "impressions"]].sum()
    rate = sums["clicks"] / sums["impressions"]
    expected = rows["impressions"] * rows["position"].map(rate).astype(float)
    by_cluster = rows.assign(expected=expected).groupby(["variant", "cluster"], as_index=False)
    totals = by_cluster[["clicks", "expected"]].sum().assign(side=lambda sums: sums["variant"])
    name, both = "clicks over expected clicks", (case.control, case.variant)
    return tuple(case.number(name, share(totals, v, "clicks", "expected"), v) for v in both)


@CauseWords(
    HALF,
    "the difference on the rest is off by half of it or more",
    "Judge models offline on exploration traffic.",
    queries=("pairs:explore",),
    columns=("explore", *_MODELS),
    shows="whether the lists that control chose favour its model",
)
def exploration(case: Case) -> Finding | Unchecked:
    """Compare the models on control's exploration traffic and on the rest."""
    pairs = case.rows("pairs:explore")
    random, chosen = (stratified(pairs, case.control, part) for part in ("explore", "rest"))
    if random is None or chosen is None:
        message = "Exploration: control has no clicks and non-clicks on both kinds of traffic"
        return Unchecked(message, ("rows of control with and without explore",))
    explored, rest = random.difference, chosen.difference
    change = clusters.change_on_same(rest, explored)
    return Finding(
        exceeds=abs(change.value) >= HALF * max(abs(rest.value), abs(explored.value)),
        message=f"Exploration: the candidate's AUC differs by {explored.value:+.3f} on control's "
        f"exploration traffic and by {rest.value:+.3f} on the rest.",
        evidence=(
            case.number("AUC difference on exploration traffic", explored),
            case.number("AUC difference on the rest", rest),
            case.number("difference of the two", change),
        ),
        p_value=clusters.p_value(change),
        accounts_for=case.closed_offline(rest.value, explored.value),
    )


@CauseWords(
    DRIFTS,
    "the models part by .03 of AUC or more while the experiment runs",
    "Check how often the candidate is trained and how old its features are.",
    queries=("pairs:day",),
    columns=("day", *_MODELS),
    shows="whether the candidate gets worse after the launch",
)
def drift(case: Case) -> Finding | Unchecked:
    """Compare the change of AUC from first to last day: the candidate's, the baseline's."""
    pairs = case.rows("pairs:day")
    before, after = (
        _change(pairs[pairs["variant"] == variant], model)
        for variant, model in zip((case.control, case.variant), _MODELS, strict=True)
    )
    if before is None or after is None:
        message = f"Drift: there are not {LEAST_DAYS} days with clicks and non-clicks"
        return Unchecked(message, (f"{LEAST_DAYS} days",))
    apart = clusters.difference(before, after)
    return Finding(
        exceeds=abs(apart.value) >= DRIFTS,
        message=f"Drift: from first to last day the AUC of the candidate changes by "
        f"{after.value:+.3f} and that of the baseline by {before.value:+.3f}, each on its "
        "own traffic.",
        evidence=(
            case.number("change of AUC of the candidate", after),
            case.number("change of AUC of the baseline", before),
            case.number("difference of the two", apart),
        ),
        p_value=clusters.p_value(apart),
    )


def _change(pairs: pd.DataFrame, model: str) -> Estimate | None:
    """Return the slope of AUC over days times the days, weighted by pairs."""
    won, of = (
        pairs.pivot_table(
            index="cluster", columns="part", values=values, aggfunc="sum", fill_value=0
        ).to_numpy(dtype=np.float64)
        for values in (f"{model}_halves", "pairs")
    )
    kept = of.sum(axis=0) > 0
    won, of = won[:, kept] / 2, of[:, kept]
    if of.shape[1] < LEAST_DAYS or of.shape[0] < 2:
        return None
    totals = of.sum(axis=0)
    auc = won.sum(axis=0) / totals
    influence = 2 * (won - auc * of) / totals
    slope = _slope_weights(totals) * (totals.size - 1)
    return clusters.influenced(float(slope @ auc), influence @ slope)


def _slope_weights(weights: Floats) -> Floats:
    """Return the weight of each day's value in the slope of a weighted regression on its number."""
    day = np.arange(weights.size, dtype=np.float64)
    centred = day - (weights * day).sum() / weights.sum()
    return np.asarray(weights * centred / (weights * centred**2).sum())


@CauseWords(
    SHARE,
    f"{SHARE:.0%} of the rows on which the models are compared",
    "Compare the models on rows that neither has learned from: split by time, with a gap.",
    queries=("learned", "pairs:learned"),
    columns=("training", *_MODELS),
    shows="whether models were compared on rows that they learned from",
)
def overlap(case: Case) -> Finding | Unchecked:
    """Count control's rows in the training data; compare the models with and without them."""
    seen = share(case.rows("learned"), "control", "learned", "impressions")
    if seen is None:
        return Unchecked("Overlap: control has no impressions", ("impressions of control",))
    pairs = case.rows("pairs:learned")
    parts = {part: stratified(pairs, case.control, part) for part in ("learned", "new")}
    pair, new = case.pair("auc", case.control), parts["new"]
    before = None if pair is None else pair.difference
    return Finding(
        exceeds=seen.value > SHARE,
        message=f"Overlap: {seen.value:.1%} of control's rows are in the training data.",
        evidence=(
            case.number("control's rows in the training data", seen, case.control),
            *(
                case.number(f"AUC difference on {name} rows", part.difference, case.control)
                for name, part in parts.items()
                if part is not None
            ),
        ),
        p_value=p_above(seen, SHARE),
        accounts_for=None
        if before is None or new is None
        else case.closed_offline(before, new.difference.value),
    )


@CauseWords(
    FALLS,
    "the AUC falls by so much on rows that were not learned",
    "Regularise, or stop sooner, by rows that are later than the training data.",
    queries=("single_pairs:training", "pairs:learned"),
    columns=("training_scores", *_MODELS),
    shows="whether the candidate does much better on what it learned",
)
def overfitting(case: Case) -> Finding | Unchecked:
    """Compare AUC on the training data with that on control's rows that were not in it."""
    train = single(case.rows("single_pairs:training"), "training", "training")
    test = stratified(case.rows("pairs:learned"), case.control, "new")
    if train is None or test is None:
        message = "Overfitting: there is no AUC on the training data or on new rows"
        return Unchecked(message, ("clicks and other rows in logs.training",))
    fall = clusters.difference(test.candidate, train)
    return Finding(
        exceeds=fall.value > FALLS,
        message=f"Overfitting: the candidate's AUC is {train.value:.3f} on its training "
        f"data and {test.candidate.value:.3f} on control's rows that are not in them.",
        evidence=(
            case.number("AUC on the training data", train),
            case.number("AUC on new rows", test.candidate, case.control),
            case.number("fall", fall),
        ),
        p_value=p_above(fall, FALLS),
    )
