"""Compare an analysis with a replay, and check the causes of a gap."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from abeval.agreement import clusters
from abeval.agreement.bill import (
    METRIC,
    build_gap,
    build_gap_of_history,
    find_part,
    is_gap,
)
from abeval.agreement.case import CauseCheck, CauseContext, Finding, Frames, Unchecked
from abeval.agreement.causes import CAUSES
from abeval.agreement.clusters import ModelPair
from abeval.agreement.levels import Levels
from abeval.agreement.standing import SignedInterval, find_standing, orient_offline, orient_online
from abeval.calls import explain_types
from abeval.experiment.model import Experiment
from abeval.history.promise import Promise, predict_lift
from abeval.results import agreement as results
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.agreement import Agreement, AgreementRow, Backtest, Cause
from abeval.results.analysis import Result
from abeval.results.history import HistoryRow
from abeval.results.replay import ReplayResult
from abeval.stats import effects
from abeval.stats.multiplicity import adjust

_LEAST_SHARE = 0.25
"""A cause that is known to account for less of the gap does not explain it."""

_SURE_STRENGTH = 1.314
"""An effect of so many half-widths of its 95 % interval is one at 99 %."""

_ROLES = ("goal", "guardrail", "diagnostic")
_GAPS = ("conflict", "offline only", "online only")
_STANDS = {
    "agree": "agree",
    "conflict": "contradict each other",
    "offline only": "differ: offline there is a difference, online none is seen",
    "online only": "differ: online there is an effect, offline no difference is seen",
    "inconclusive": "are both unclear",
}


@explain_types
def compare(
    result: Result,
    replay: ReplayResult | None,
    facts: Mapping[str, Frames] | None = None,
    backtests: Sequence[Backtest] = (),
    notes: Sequence[str] = (),
    experiment: Experiment | None = None,
    levels: Mapping[str, Levels | str] | None = None,
    history: Sequence[HistoryRow] = (),
) -> Agreement:
    """Set a replay beside an analysis, for every treatment.

    Both are of one experiment.

    Without `facts` (variant → rows of the queries that its logs allow), causes that need logs are
    not checked; without an `experiment`, those that read entries of its file. A `history` says what
    was promised where the logs cannot.
    """
    info = result.experiment
    if replay is not None and replay.name != info.name:
        raise ValueError(f"the replay is of {replay.name!r}, the result of {info.name!r}")
    models = {variant.name: variant.model or "" for variant in info.variants}
    cases, rows, causes = list[CauseContext](), list[AgreementRow](), list[Cause]()
    explanations = list[results.Explanation]()
    for name in (variant for variant in models if variant != info.control):
        case = CauseContext(
            control=info.control,
            variant=name,
            baseline=models[info.control],
            candidate=models[name],
            alpha=info.alpha,
            result=result,
            replay=replay,
            backtests=tuple(row for row in backtests if row.variant == name),
            experiment=experiment,
            facts=(facts or {}).get(name),
            levels=(levels or {}).get(name),
        )
        case_rows = tuple(build_agreement_rows(case))
        # AUC, or the first metric, against the first goal, is what is explained.
        gap = min(
            case_rows, key=lambda row: (row.offline != "auc", _ROLES.index(row.role)), default=None
        )
        case = replace(case, gap=gap)
        findings = {check: check.judge(case) for check in CAUSES}
        ranked_causes = _rank_causes(case, findings)
        if gap is not None:
            bill = _build_bill(case, findings, ranked_causes, history)
            explanations.append(write_explanation(case, gap, ranked_causes, bill))
        cases.append(case)
        rows += case_rows
        causes += ranked_causes
    return Agreement(
        schema_version=results.AGREEMENT_SCHEMA_VERSION,
        name=info.name,
        alpha=info.alpha,
        explanations=tuple(explanations),
        rows=tuple(rows),
        matrix=tuple(cell for case in cases for cell in _list_matrix(case)),
        decompositions=tuple(part for case in cases for part in _decompose_differences(case)),
        backtests=tuple(backtests),
        causes=tuple(causes),
        positions=tuple(rate for case in cases for rate in _estimate_position_rates(case)),
        notes=tuple(notes),
        questions=result.questions,
        gap=explanations[0].gap if explanations else None,
    )


_Findings = Mapping[CauseCheck, Finding | Unchecked]


def _rank_causes(case: CauseContext, findings: _Findings) -> tuple[Cause, ...]:
    """Correct causes that are tests by Holm; rank those found by their share."""
    # A fact of the file is no test, and needs no correction.
    tested = {
        check.name: finding.p_value
        for check, finding in findings.items()
        if isinstance(finding, Finding) and finding.p_value is not None
    }
    adjusted = dict(zip(tested, adjust([*tested.values()]).tolist(), strict=True))
    causes = [
        _build_cause(check, case, finding, adjusted.get(check.name))
        for check, finding in findings.items()
    ]
    ordered = sorted((cause for cause in causes if cause.status == "found"), key=_order)
    first = [replace(cause, rank=rank) for rank, cause in enumerate(ordered, start=1)]
    statuses = ("not found", "cannot be checked")
    return (*first, *(cause for status in statuses for cause in causes if cause.status == status))


def _build_cause(
    check: CauseCheck, case: CauseContext, finding: Finding | Unchecked, p_adjusted: float | None
) -> Cause:
    """Call a cause found if it is there beyond chance and explains the gap."""
    if isinstance(finding, Unchecked):
        message, needs = finding
        return Cause(check.name, case.variant, "cannot be checked", message, needs=needs)
    is_there = finding.exceeds and (p_adjusted is None or p_adjusted <= case.alpha)
    share = finding.accounts_for if is_there else None
    explains = _explains(check, share, case)
    if is_there and isinstance(case.levels, Levels) and is_gap(case.levels):
        part = find_part(case.levels, check.name, finding.points)
        # A part that was measured in clicks counts more than what the cause says of itself.
        if part is not None:
            share, explains = part, True
    is_found = is_there and explains
    return Cause(
        check.name,
        case.variant,
        "found" if is_found else "not found",
        message=finding.message,
        evidence=finding.evidence,
        threshold=check.limits[0] if check.limits else None,
        threshold_reason=check.reason.format(*check.limits),
        p_value=finding.p_value,
        p_adjusted=p_adjusted,
        accounts_for=share,
        remedy=(finding.remedy or check.remedy) if is_found else "",
    )


def _explains(check: CauseCheck, share: float | None, case: CauseContext) -> bool:
    """Tell whether the cause may account for a quarter or more of a gap."""
    gap = case.gap
    if gap is None or gap.standing not in _GAPS:
        # A failed check explains why the two sides cannot be compared.
        return gap is not None and gap.reason == "untrusted" and check.name == "trust"
    return not _is_promise_kept(case, gap) and (share is None or share >= _LEAST_SHARE)


def _is_promise_kept(case: CauseContext, gap: AgreementRow) -> bool:
    """Tell whether the promised effect came, so that nothing is left to explain."""
    if not isinstance(case.levels, Levels) or is_gap(case.levels):
        return False
    # A metric that sees a gain where none was promised, or the opposite of what came, was misled:
    # that has a cause. One that sees a loss on control's traffic mostly sees who ranked it.
    if gap.standing == "online only":
        return True
    # Chance alone turns one effect of nothing in forty into a gain; a cause needs a surer one.
    is_sure = gap.standing == "conflict" and abs(gap.online_strength or 0.0) > _SURE_STRENGTH
    return (gap.offline_strength or 0.0) <= 0 and not is_sure


def _order(cause: Cause) -> tuple[float, float]:
    """Put larger shares of the gap first, then smaller p-values; facts are certain."""
    share = -1.0 if cause.accounts_for is None else cause.accounts_for
    return -share, 0.0 if cause.p_adjusted is None else cause.p_adjusted


def _build_bill(
    case: CauseContext, findings: _Findings, causes: Sequence[Cause], history: Sequence[HistoryRow]
) -> results.Gap:
    """Size the gap and what the found causes took.

    Its reason says why that cannot be known.
    """
    points = {
        check.name: finding.points
        for check, finding in findings.items()
        if isinstance(finding, Finding) and finding.points is not None
    }
    found_causes = [cause for cause in causes if cause.status == "found"]
    if isinstance(case.levels, Levels):
        return build_gap(case.variant, case.levels, found_causes, points, case.alpha)
    reason = case.levels or "no logs were read"
    # Past experiments stand in only where the logs of this one cannot tell.
    if history and case.gap is not None:
        promise = _predict_promise(case, case.gap.online, history)
        if not isinstance(promise, str):
            return build_gap_of_history(case, promise, found_causes, points)
        reason = f"{reason}; {promise}"
    return results.Gap(case.variant, METRIC, reason=reason)


def _predict_promise(
    case: CauseContext, target: str, history: Sequence[HistoryRow]
) -> Promise | str:
    """Predict the effect online from the offline differences on control's traffic."""
    metrics = {row.metric for row in (() if case.replay is None else case.replay.pairs)}
    differences = {
        metric: difference
        # A set has no order, and the result must be the same on each run.
        for metric in sorted(metrics)
        if (difference := case.difference(metric, case.control)) is not None
    }
    return predict_lift(history, case.result.experiment.name, differences, target, case.alpha)


def write_explanation(
    case: CauseContext, gap: AgreementRow, causes: Sequence[Cause], bill: results.Gap | None = None
) -> results.Explanation:
    """Say the gap in a sentence, then one for each cause that was found."""
    compared = f"{gap.offline} of {case.candidate} against {case.baseline}"
    if case.candidate in ("", case.baseline):
        compared = f"{gap.offline} (the variants have no two models)"
    stands = _STANDS[gap.standing]
    if gap.standing == "inconclusive" and gap.reason is not None:
        stands = f"cannot be compared ({codes.describe_reason(gap.reason)})"
    head = (
        f"{compared} on the traffic of {case.control} "
        f"({_format_interval(gap.difference, gap.low, gap.high, '+.4f')}) "
        f"and {gap.online} of {case.variant} "
        f"({_format_interval(gap.lift, gap.lift_low, gap.lift_high, '+.2%')}) {stands}."
    )
    cause_sentences = [
        f"{cause.rank}. {cause.message}{_share(cause)} {cause.remedy}".rstrip()
        for cause in causes
        if cause.status == "found"
    ]
    differs = gap.standing in _GAPS or (isinstance(case.levels, Levels) and is_gap(case.levels))
    if not cause_sentences and differs and not _is_promise_kept(case, gap):
        checked = sum(cause.status != "cannot be checked" for cause in causes)
        cause_sentences = [f"Causes that could be checked: {checked}. None explains the gap."]
    sized = [] if bill is None or bill.promised is None else [bill.sentence]
    nothing = "There is no gap to explain."
    if gap.standing == "conflict":
        nothing = "What was promised and what came differ by no more than noise: no cause is named."
    return results.Explanation(
        variant=case.variant,
        offline=gap.offline,
        online=gap.online,
        standing=gap.standing,
        sentences=(head, *sized, *(cause_sentences or [nothing])),
        gap=bill,
    )


def _share(cause: Cause) -> str:
    if cause.accounts_for is None:
        return ""
    return f" It accounts for {fmt.format_percent(cause.accounts_for)} of the gap."


def _format_interval(value: float | None, low: float | None, high: float | None, form: str) -> str:
    if value is None:
        return "unknown"
    return f"{value:{form}}" + (
        "" if low is None or high is None else f" [{low:{form}}, {high:{form}}]"
    )


_METRICS = ("auc", "gauc[impressions]", "q_ctr", "log_loss")
"""Of the models on both traffics."""

_DEEPEST = 50
"""Positions further down are not shown; they have few impressions."""


def build_agreement_rows(case: CauseContext) -> Iterator[AgreementRow]:
    """Set every offline metric against every online metric.

    They are of the replay and of the scorecard.
    """
    online = [row for row in case.result.scorecard if row.variant == case.variant]
    for metric, _ in () if case.replay is None else case.replay.definitions:
        pair = case.pair(metric, case.control)
        offline = orient_offline(pair)
        for row in online:
            effect = orient_online(row)
            yield AgreementRow(
                variant=case.variant,
                offline=metric,
                online=row.metric,
                role=row.role,
                difference=None if pair is None else pair.difference,
                low=None if pair is None else pair.low,
                high=None if pair is None else pair.high,
                lift=row.lift,
                lift_low=row.lift_low,
                lift_high=row.lift_high,
                standing=find_standing(offline, effect),
                reason=offline.reason or effect.reason,
                others=tuple(_compare_other_traffics(case, metric, effect)),
                offline_strength=offline.strength,
                online_strength=effect.strength,
            )


def _compare_other_traffics(
    case: CauseContext, metric: str, effect: SignedInterval
) -> Iterator[results.OfflineDifference]:
    traffics = dict.fromkeys(row.traffic for row in (case.replay.pairs if case.replay else ()))
    for traffic in traffics:
        pair = case.pair(metric, traffic)
        if traffic != case.control and pair is not None:
            numbers, offline = (pair.difference, pair.low, pair.high), orient_offline(pair)
            yield results.OfflineDifference(
                traffic, *numbers, find_standing(offline, effect), offline.strength
            )


def _list_matrix(case: CauseContext) -> Iterator[results.MatrixCell]:
    """Return every metric of `_METRICS` of both models on both traffics."""
    keys = {(m, t) for m in (case.baseline, case.candidate) for t in (case.control, case.variant)}
    for row in case.replay.rows if case.replay is not None else ():
        if row.metric in _METRICS and (row.model, row.traffic) in keys:
            numbers = (row.value, row.low, row.high, row.reason)
            yield results.MatrixCell(case.variant, row.metric, row.model, row.traffic, *numbers)


def _decompose_differences(case: CauseContext) -> Iterator[results.Decomposition]:
    """Split the logged difference of each of `_METRICS` into model and traffic."""
    definitions = dict(case.replay.definitions) if case.replay is not None else {}
    yield from (_decompose(case, metric) for metric in _METRICS if metric in definitions)


def _decompose(case: CauseContext, metric: str) -> results.Decomposition:
    first, second = (_find_model_pair(case, metric, t) for t in (case.control, case.variant))
    if first is None or second is None:
        nothing = (None,) * 9
        return results.Decomposition(case.variant, metric, *nothing, reason="no_interval")
    logged = clusters.estimate_difference(first.baseline, second.candidate)
    # The mean of both traffics, because neither model nor traffic is exchanged first.
    model = (first.difference.value + second.difference.value) / 2
    # Units of the two traffics are different, so variances add; halves square to quarters.
    between = (first.difference.variance + second.difference.variance) / 4
    within = (_sum_variance(first) + _sum_variance(second)) / 4
    df = float(first.baseline.units + second.baseline.units - 2)

    def number(value: float, variance: float) -> tuple[float, float, float]:
        return (value, *effects.compute_interval(value, variance**0.5, df, case.alpha))

    return results.Decomposition(
        case.variant,
        metric,
        *number(logged.value, logged.variance),
        *number(model, between),
        *number(logged.value - model, within),
        reason=None,
    )


def _find_model_pair(case: CauseContext, metric: str, traffic: str) -> ModelPair | None:
    models = [case.estimate(metric, m, traffic) for m in (case.baseline, case.candidate)]
    difference = case.difference(metric, traffic)
    if models[0] is None or models[1] is None or difference is None:
        return None
    return ModelPair(models[0], models[1], difference)


def _sum_variance(pair: ModelPair) -> float:
    """Return the variance of the models' sum: 2 Var(a) + 2 Var(b) - Var(b - a)."""
    # Pairs give the variance of the difference, from which that of the sum follows.
    both = 2 * pair.baseline.variance + 2 * pair.candidate.variance
    return max(both - pair.difference.variance, 0.0)


def _estimate_position_rates(case: CauseContext) -> Iterator[results.PositionRate]:
    """Return a click rate for each variant and position; nothing without positions."""
    rows = (case.facts or {}).get("positions")
    if rows is None:
        return
    positions = sorted(rows["position"].unique())[:_DEEPEST]
    cells = dict(list(rows.groupby(["variant", "position"])))
    for variant in (case.control, case.variant):
        for position in (p for p in positions if (variant, p) in cells):
            columns = cells[variant, position][["clicks", "impressions"]]
            clicks, shows = columns.to_numpy(dtype=np.float64).T
            ends = case.number("", clusters.estimate_cluster_ratio(clicks, shows))
            counts = (int(shows.sum()), int(clicks.sum()))
            value = float(clicks.sum() / shows.sum())
            yield results.PositionRate(variant, int(position), *counts, value, ends.low, ends.high)
