"""Check causes that show in rows that were not served as meant.

Each can show in several ways, its *symptoms*, each a finding: it is there if one exceeds its limit.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from abeval.agreement.case import CauseContext, Finding, find_above
from abeval.agreement.clusters import (
    Shares,
    compare_shares,
    compute_p_above,
    estimate_strata,
    share,
)
from abeval.results.agreement import Evidence
from abeval.stats.records import Estimate

FEW = 0.05
"""Share of different values, below which scores were rounded; also in `causes.toml`."""

_HOUR_MS = 3_600_000.0
_LEAST_VALUES = 100
_ORDERED = 0.99
_SHORT = 0.99
_FLAGS = {"timeout": "a timeout", "fallback": "a fallback", "empty": "an empty answer"}
_CLIPPED = "Rank by the scores before they are clipped."


Values = Mapping[str, float]
"""Column of `queries/agreement/served_values` → its value on one side."""


def _combine_symptoms(
    title: str,
    symptoms: Sequence[Finding],
    closed: float | None,
    also: Iterable[Evidence] = (),
    otherwise: int = 1,
) -> Finding | None:
    """Join the symptoms that exceed their limits, else the first ones."""
    if not symptoms:
        return None
    seen = [symptom for symptom in symptoms if symptom.exceeds]
    smallest = min(symptom.p_value or 0.0 for symptom in seen or symptoms)
    texts = (symptom.message for symptom in seen or symptoms[:otherwise])
    return Finding(
        exceeds=bool(seen),
        message=f"{title}: {'; '.join(texts)}.",
        evidence=(*(number for symptom in symptoms for number in symptom.evidence), *also),
        # Bonferroni over all symptoms, because each could have exceeded its limit by chance.
        p_value=min(1.0, smallest * len(symptoms)),
        accounts_for=closed,
    )


def _estimate_auc_loss(case: CauseContext, state: str) -> Estimate | None:
    """Estimate the AUC of served scores minus that of the candidate's scores.

    Both are of the rows in one state.
    """
    both = estimate_strata(case.rows("pairs:served"), case.variant, state)
    return None if both is None else both.difference


def _describe_shares(among: Shares) -> str:
    """Write the shares of both variants."""
    variant, control = among.variant.value, among.control.value
    return f"{variant:.1%} of the variant's rows and {control:.1%} of control's"


def _negate(change: Estimate) -> Estimate:
    """Return a change with its other sign: what falls is lost."""
    return change._replace(value=-change.value)


def _close_by_serving(case: CauseContext, state: str) -> float | None:
    """Close the gap by judging rows in one state as they were served."""
    if "served_apart" not in (case.facts or {}):
        return None
    rows, loss = case.rows("served_apart"), _estimate_auc_loss(case, state)
    compared = rows[rows["side"] == "variant"].groupby("state")["compared"].sum()
    total = float(compared.sum())
    weight = float(compared.get(state, 0.0)) / total if total else 0.0
    return None if loss is None else case.closed_by_auc(weight * loss.value)


def check_serving(case: CauseContext, more: float, slower: float) -> Finding | None:
    """Compare the variant's faults and latency with control's.

    The finding is None if the log has neither faults nor latency. Faults are timeouts, fallbacks
    and empty answers. Their share may be larger by `more`, and the latency by `slower` times
    control's.
    """
    rows = case.rows("served_sums")
    symptoms = [*_test_faults(case, rows, more, slower)]
    return _combine_symptoms("Serving", symptoms, _close_by_healthy_rows(case, rows))


def _test_faults(
    case: CauseContext, rows: pd.DataFrame, more: float, slower: float
) -> Iterator[Finding]:
    for flag, words in _FLAGS.items():
        if fault_shares := compare_shares(rows, flag, f"{flag}_known"):
            text = f"{_describe_shares(fault_shares)} have {words}"
            numbers = case.sides(f"rows with {flag}", fault_shares.control, fault_shares.variant)
            yield find_above(fault_shares.more, more, text, *numbers)
    mean = compare_shares(rows, "latency_thousandths", "latency_known")
    if mean is not None and mean.control.value > 0:
        before, after = mean.control.value, mean.variant.value
        # By the delta method of a ratio of independent means.
        variance = mean.variant.variance / before**2
        variance += mean.control.variance * (after / before**2) ** 2
        units = mean.control.units + mean.variant.units
        longer = Estimate(after / before - 1, variance, units, mean.variant.df)
        text = f"the latency of the variant differs from control's by {longer.value:+.0%}"
        number = case.number("latency against control's", longer, case.variant)
        yield find_above(longer, slower, text, number)


def _close_by_healthy_rows(case: CauseContext, rows: pd.DataFrame) -> float | None:
    """Close the gap by clicks per impression among rows that were served as meant."""
    online, rates = case.online, compare_shares(rows, "healthy_clicks", "healthy")
    # Healthy rows give clicks per impression, which say nothing of another metric.
    if online is None or online.lift is None or online.metric != "ctr":
        return None
    if rates is None or rates.control.value <= 0:
        return None
    return case.closed_online(online.lift, rates.variant.value / rates.control.value - 1)


def check_stale_model(case: CauseContext, older_hours: float, flagged: float) -> Finding | None:
    """Compare the age of the models that served, and the shares of stale rows."""
    rows = case.rows("served_sums")
    symptoms = [*_test_model_age(case, rows, older_hours, flagged)]
    return _combine_symptoms(
        "Stale model", symptoms, _close_by_serving(case, "old"), _count_model_versions(case, rows)
    )


def _test_model_age(
    case: CauseContext, rows: pd.DataFrame, older_hours: float, flagged: float
) -> Iterator[Finding]:
    ages = rows.assign(hours=rows["age_ms"].astype(float) / _HOUR_MS)
    if hours := compare_shares(ages, "hours", "age_known"):
        is_older = "older" if hours.more.value >= 0 else "younger"
        text = f"the variant's model is {abs(hours.more.value):.0f} hours {is_older} than control's"
        numbers = case.sides("hours since training", hours.control, hours.variant)
        yield find_above(hours.more, older_hours, text, *numbers)
    if stale := compare_shares(rows, "stale", "stale_known"):
        text = f"{_describe_shares(stale)} are stale"
        number = case.number("stale rows", stale.more, "against control")
        yield find_above(stale.more, flagged, text, number)


def _count_model_versions(case: CauseContext, rows: pd.DataFrame) -> Iterator[Evidence]:
    versions = rows.dropna(subset=["model_version"]).groupby("side")["model_version"].nunique()
    for side, variant in (("control", case.control), ("variant", case.variant)):
        if side in versions:
            yield Evidence("versions of the model", float(versions[side]), where=variant)


def check_leakage(case: CauseContext, late: float, max_single_feature_auc: float) -> Finding | None:
    """Test late features, and features that tell the click.

    These are the leaks of Kaufman et al. (2012): nobody knows them at the request.
    """
    # An AUC that falls on the model's own lists is none: choosing the top narrows the range of
    # the score.
    symptoms = [*_find_leaks(case, late, max_single_feature_auc)]
    loss = _estimate_auc_loss(case, "late") or _estimate_auc_loss(case, "plain")
    closed = None if loss is None else case.closed_by_auc(loss.value)
    return _combine_symptoms("Leakage", symptoms, closed, otherwise=len(symptoms))


def _find_leaks(
    case: CauseContext, limit: float, max_single_feature_auc: float
) -> Iterator[Finding]:
    """Count rows with a late feature, and find the feature that tells most.

    That is the feature that alone orders clicks best on control's traffic.
    """
    rows = case.rows("served_sums").assign(side="both")
    if late := share(rows, "both", "late", "feature_known"):
        text = f"{late.value:.1%} of rows have a feature from after the request"
        yield find_above(late, limit, text, case.number("rows with a later feature", late))
    rows, aucs = case.rows("pairs:features"), dict[str, Estimate]()
    for name in sorted(set(rows["part"])):
        if both := estimate_strata(rows, case.control, name):
            # A feature that orders clicks the wrong way round tells as much.
            auc = both.candidate
            aucs[name] = auc if auc.value >= 0.5 else auc._replace(value=1 - auc.value)
    if aucs:
        best = max(aucs, key=lambda name: aucs[name].value)
        text = f"{best} alone has an AUC of {aucs[best].value:.3f}"
        numbers = (
            case.number("AUC of a feature alone", auc, feature) for feature, auc in aucs.items()
        )
        # Bonferroni over the features, because the best of many looks good by chance.
        yield find_above(aucs[best], max_single_feature_auc, text, *numbers, tests=len(aucs))


def _find_served_values(case: CauseContext, side: str) -> Values | None:
    """Return the row of `served_values` of one side; None without rows."""
    rows = case.rows("served_values").set_index("side").astype(float)
    return rows.T.to_dict().get(side)


def _measure_distinct_share(values: Values) -> float:
    """Return the share of different values that is left."""
    return values["served_values"] / values["own_values"] if values["own_values"] else 1.0


def is_clipped(values: Values) -> bool:
    """Tell whether scores stop at a cap or a floor, and are own ones between."""
    beyond = values["capped"] + values["floored"]
    ends = min(values["capped"], values["floored"]) == 0 or values["lowest"] < values["highest"]
    return beyond > 0 and ends and values["moved"] <= (1 - _ORDERED) * values["inside"]


def is_rounded(values: Values, min_distinct_share: float = FEW) -> bool:
    """Tell whether served scores are own ones in order, but few or of 16 bits."""
    ordered = values["falls"] <= (1 - _ORDERED) * values["compared"]
    are_few = (
        values["own_values"] >= _LEAST_VALUES
        and _measure_distinct_share(values) < min_distinct_share
    )
    rows = max(values["compared"], 1)
    short = values["served_short"] / rows > _SHORT and values["own_short"] / rows < 1 - _SHORT / 2
    # Rounding moves nearly all scores, a cap only those beyond it.
    return ordered and (are_few or short) and values["moved"] > 0.5 * values["inside"]


def check_half_precision(case: CauseContext, min_distinct_share: float) -> Finding | None:
    """Look for served scores that were rounded, and what AUC that costs.

    `min_distinct_share` is the least share of the model's own different scores that must be left
    among the served ones; with fewer, scores were rounded.
    """
    values, lost = _find_served_values(case, "variant"), _estimate_auc_loss(case, "plain")
    if values is None or lost is None:
        return None
    gone = _negate(lost)
    served, own_count = values["served_values"], values["own_values"]
    of_variant = {
        "different served scores": served,
        "different own scores": own_count,
        "share of values left": _measure_distinct_share(values),
        "served scores that fit into 16 bits": values["served_short"] / max(values["compared"], 1),
    }
    return Finding(
        exceeds=is_rounded(values, min_distinct_share),
        message=f"Half precision: served scores have {served:,.0f} different values, "
        f"the model's own {own_count:,.0f}; the AUC changes by {lost.value:+.3f}.",
        evidence=(
            *(Evidence(name, value, where=case.variant) for name, value in of_variant.items()),
            case.number("AUC lost by rounding", gone, case.variant),
        ),
        p_value=compute_p_above(gone, 0.0) if is_rounded(values, min_distinct_share) else 1.0,
        accounts_for=_close_by_serving(case, "plain"),
    )


def check_served_score(
    case: CauseContext, max_score_mismatch: float, unserved: float, default: float
) -> Finding | None:
    """Test served scores on rows that no other cause explains.

    Scores may mismatch, be missing, or be a default. It is train-serve skew (Sculley et al. 2015).
    Other causes are timeouts and fallbacks, late features, old models, rounding, and what differs
    by position alone.
    """
    values = _find_served_values(case, "variant")
    symptoms = [
        *_test_mismatches(case, values, max_score_mismatch),
        *_test_missing_scores(case, unserved),
        *_test_default_score(values, default),
    ]
    lost = _estimate_auc_loss(case, "plain")
    losses = [] if lost is None else [case.number("AUC lost", _negate(lost))]
    also = (*_describe_sides(case), *losses)
    finding = _combine_symptoms("Served scores", symptoms, _close_by_serving(case, "plain"), also)
    if finding is None or values is None or not is_clipped(values):
        return finding
    return finding._replace(remedy=_CLIPPED)


def _test_mismatches(case: CauseContext, values: Values | None, limit: float) -> Iterator[Finding]:
    """Count rows that are apart; those that a position explains are not accused."""
    rows = case.rows("served_apart")
    plain = rows[rows["state"] == "plain"]
    apart = share(plain, "variant", "apart", "compared")
    accused = share(plain, "variant", "unexplained", "compared")
    if apart is None or accused is None:
        return
    text = f"{apart.value:.1%} of the variant's rows were served with another score"
    if values is not None and is_clipped(values):
        total = values["compared"]
        ends = ((values["capped"], values["highest"]), (values["floored"], values["lowest"]))
        text = " and ".join(
            f"served scores stop at {end:.4g} in {rows / total:.1%} of the variant's rows"
            for rows, end in ends
            if rows
        )
    number = case.number("rows with another score", apart, case.variant)
    # Rounding is a cause of its own, so its rows are shown, but not accused twice.
    if values is not None and is_rounded(values):
        yield Finding(False, f"{text}, by rounding", (number,), p_value=1.0)
    else:
        yield find_above(accused, limit, text, number)


def _test_missing_scores(case: CauseContext, limit: float) -> Iterator[Finding]:
    """Count rows without a served score that did not fail, of all rows."""
    rows = case.rows("served_apart")
    # Failed requests have no score to serve, and are the cause `serving`.
    unserved = rows.assign(unserved=rows["unserved"].where(rows["state"] != "failed", 0))
    if missing := compare_shares(unserved, "unserved", "impressions"):
        text = f"{_describe_shares(missing)} have no served score"
        number = case.number("rows without a served score", missing.more, "against control")
        yield find_above(missing.more, limit, text, number)


def _test_default_score(values: Values | None, limit: float) -> Iterator[Finding]:
    """Find one value of many rows whose own scores differ, but for rounding and caps."""
    if values is None or is_rounded(values) or is_clipped(values) or values["compared"] == 0:
        return
    most = values["served_most"] / values["compared"]
    own_share = values["own_most"] / values["compared"]
    # A score that is frequent among the model's own is no default.
    exceeds = most > limit and most > 2 * own_share
    text = f"{most:.1%} of the variant's rows have the same served score"
    number = Evidence("rows with the most frequent served score", most)
    yield Finding(exceeds, text, (number,), p_value=0.0 if exceeds else 1.0)


def _describe_sides(case: CauseContext) -> Iterator[Evidence]:
    for side, variant in (("control", case.control), ("variant", case.variant)):
        apart = share(case.rows("served_apart"), side, "apart", "compared")
        yield case.number("all rows with another score", apart, variant)
        if values := _find_served_values(case, side):
            varied = math.sqrt(values["own_own"] * values["served_served"])
            correlation = values["own_served"] / varied if varied > 0 else None
            yield Evidence("rank correlation", correlation, where=variant)
