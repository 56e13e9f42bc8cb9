"""An analysis and a replay → their agreement; with the logs' facts, all causes are checked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from abeval.agreement import clusters
from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.causes import CAUSES
from abeval.agreement.rows import agreement_rows, decompositions, matrix
from abeval.experiment.model import Experiment
from abeval.experiment.sections import AgreementColumns
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.agreement import (
    AGREEMENT_SCHEMA_VERSION,
    Agreement,
    AgreementRow,
    Backtest,
    Cause,
    Explanation,
    PositionRate,
)
from abeval.results.analysis import Result
from abeval.results.replay import ReplayResult
from abeval.stats.multiplicity import adjust

LEAST_SHARE = 0.25
"""A cause that is known to account for less of the gap does not explain it."""

_GAPS = ("conflict", "offline only", "online only")

_STANDS = {
    "agree": "agree",
    "conflict": "contradict each other",
    "offline only": "differ: offline there is a difference, online none is seen",
    "online only": "differ: online there is an effect, offline no difference is seen",
    "inconclusive": "are both unclear",
}


def cause_of(check: CauseCheck, case: Case, finding: Finding | Unchecked) -> Cause:
    """The record of a cause, before p-values are adjusted over all of them."""
    if isinstance(finding, Unchecked):
        return Cause(
            check.name, case.variant, "cannot be checked", finding.message, needs=finding.needs
        )
    return Cause(
        check.name,
        case.variant,
        "found" if finding.exceeds else "not found",
        finding.message,
        finding.evidence,
        finding.threshold,
        finding.threshold_reason,
        finding.p_value,
        accounts_for=finding.accounts_for,
        remedy=finding.remedy if finding.exceeds else "",
    )


def ranked(causes: Sequence[Cause], case: Case) -> tuple[Cause, ...]:
    """Causes with Holm's p-values over all that were tested; found ones first, by their share."""
    tested = [cause for cause in causes if cause.p_value is not None]
    adjusted = adjust([cause.p_value or 0.0 for cause in tested]).tolist()
    by_name = dict(zip((cause.name for cause in tested), adjusted, strict=True))
    judged = [_judged(cause, by_name.get(cause.name), case) for cause in causes]
    ordered = sorted((c for c in judged if c.status == "found"), key=_order)
    first = [replace(cause, rank=place) for place, cause in enumerate(ordered, start=1)]
    rest = ("not found", "cannot be checked")
    return (*first, *(c for status in rest for c in judged if c.status == status))


def _judged(cause: Cause, p_adjusted: float | None, case: Case) -> Cause:
    """A cause is found if it is there beyond chance and explains what there is to explain."""
    is_there = cause.status == "found" and (p_adjusted is None or p_adjusted <= case.alpha)
    share = cause.accounts_for if is_there else None
    cause = replace(cause, p_adjusted=p_adjusted, accounts_for=share)
    if cause.status != "found" or (is_there and _explains(cause, case.gap)):
        return cause
    return replace(cause, status="not found", remedy="")


def _explains(cause: Cause, gap: AgreementRow | None) -> bool:
    """Whether there is a gap and the cause may account for a quarter of it or more.

    A failed check explains why the two sides cannot be compared.
    """
    if gap is None or gap.standing not in _GAPS:
        return gap is not None and gap.reason == "untrusted" and cause.name == "trust"
    return cause.accounts_for is None or cause.accounts_for >= LEAST_SHARE


def _order(cause: Cause) -> tuple[float, float]:
    """Larger shares of the gap first, then smaller p-values; facts are certain."""
    share = -1.0 if cause.accounts_for is None else cause.accounts_for
    return -share, 0.0 if cause.p_adjusted is None else cause.p_adjusted


def explanation(case: Case, gap: AgreementRow, causes: Sequence[Cause]) -> Explanation:
    """The gap in a sentence, then one for each cause that was found."""
    compared = f"{gap.offline} of {case.candidate} against {case.baseline}"
    if case.candidate in ("", case.baseline):
        compared = f"{gap.offline} (the variants have no two models)"
    head = (
        f"{compared} on the traffic of {case.control} {_ends(gap.difference, gap.low, gap.high)} "
        f"and {gap.online} of {case.variant} "
        f"{_ends(gap.lift, gap.lift_low, gap.lift_high, lift=True)} {_stands(gap)}."
    )
    rest = [
        f"{cause.rank}. {cause.message}{_share(cause)} {cause.remedy}".rstrip()
        for cause in causes
        if cause.status == "found"
    ]
    if not rest and gap.standing in _GAPS:
        checked = sum(cause.status != "cannot be checked" for cause in causes)
        rest = [f"No cause found explains the gap ({checked} of {len(causes)} were checked)."]
    words = (case.variant, gap.offline, gap.online, gap.standing)
    return Explanation(*words, (head, *(rest or ["There is no gap to explain."])))


def _stands(gap: AgreementRow) -> str:
    """How the two sides stand to each other, in words that follow both."""
    if gap.standing == "inconclusive" and gap.reason is not None:
        return f"cannot be compared ({codes.reason(gap.reason)})"
    return _STANDS[gap.standing]


def _share(cause: Cause) -> str:
    if cause.accounts_for is None:
        return ""
    return f" It accounts for {fmt.percent(cause.accounts_for)} of the gap."


def _ends(value: float | None, low: float | None, high: float | None, lift: bool = False) -> str:
    if value is None:
        return "(unknown)"
    if low is None or high is None:
        return f"({value:+.2%})" if lift else f"({value:+.4f})"
    if lift:
        return f"({value:+.2%} [{low:+.2%}, {high:+.2%}])"
    return f"({value:+.4f} [{low:+.4f}, {high:+.4f}])"


MOST = 50
"""Positions further down are not shown; they have few impressions."""


def position_rates(case: Case, facts: Frames | None) -> Iterator[PositionRate]:
    """A rate for each variant and position; nothing without positions."""
    if facts is None or "positions" not in facts:
        return
    rows = facts["positions"]
    shown = sorted(rows["position"].unique())[:MOST]
    of_cells = dict(list(rows.groupby(["variant", "position"])))
    for variant in (case.control, case.variant):
        for position in shown:
            cell = of_cells.get((variant, position))
            if cell is None:
                continue
            clicks, shows = (cell[c].to_numpy(dtype=np.float64) for c in ("clicks", "impressions"))
            rate = clusters.ratio(clicks, shows)
            ends = clusters.evidence("", rate, case.alpha)
            counts = (int(shows.sum()), int(clicks.sum()))
            value = float(clicks.sum() / shows.sum())
            yield PositionRate(variant, int(position), *counts, value, ends.low, ends.high)


__all__ = ["Agreement", "ReplayResult", "Result", "compare"]

Known = Mapping[str, Frames | None]
"""Variant → rows of the queries that its logs allow; None where no log was read."""


def compare(
    result: Result,
    replay: ReplayResult | None,
    facts: Known | None = None,
    backtests: Sequence[Backtest] = (),
    notes: Sequence[str] = (),
    experiment: Experiment | None = None,
) -> Agreement:
    """Set offline beside online for every treatment.

    Args:
        result: The analysis.
        replay: The models on its log; None without models.
        facts: What the logs say, by variant; without, causes that need logs are not checked.
        backtests: Off-policy estimates against what happened.
        notes: What a reader must know.
        experiment: Its file; without, causes that read its entries are not checked.

    Raises:
        ValueError: The replay is of another experiment.
    """
    if replay is not None and replay.name != result.experiment.name:
        raise ValueError(
            f"the replay is of {replay.name!r}, the result of {result.experiment.name!r}"
        )
    cases = [
        _with_gap(replace(case, backtests=tuple(b for b in backtests if b.variant == case.variant)))
        for case in _cases(result, replay, experiment)
    ]
    known = facts or {}
    causes = {case.variant: _causes(case, known.get(case.variant)) for case in cases}
    return Agreement(
        schema_version=AGREEMENT_SCHEMA_VERSION,
        name=result.experiment.name,
        alpha=result.experiment.alpha,
        explanations=tuple(
            explanation(case, case.gap, causes[case.variant])
            for case in cases
            if case.gap is not None
        ),
        rows=tuple(row for case in cases for row in agreement_rows(case)),
        matrix=tuple(cell for case in cases for cell in matrix(case)),
        decompositions=tuple(part for case in cases for part in decompositions(case)),
        backtests=tuple(backtests),
        causes=tuple(cause for of_variant in causes.values() for cause in of_variant),
        positions=tuple(
            rate for case in cases for rate in position_rates(case, known.get(case.variant))
        ),
        notes=tuple(notes),
    )


def _cases(
    result: Result, replay: ReplayResult | None, experiment: Experiment | None
) -> list[Case]:
    info = result.experiment
    models = {variant.name: variant.model or "" for variant in info.variants}
    return [
        Case(
            control=info.control,
            variant=name,
            baseline=models[info.control],
            candidate=models[name],
            alpha=info.alpha,
            result=result,
            replay=replay,
            experiment=experiment,
        )
        for name in models
        if name != info.control
    ]


def _with_gap(case: Case) -> Case:
    """The case with what is explained: AUC, or the first metric, against the first goal."""
    rows = list(agreement_rows(case))
    first = min(rows, key=_headline, default=None)
    return replace(case, gap=first)


_ROLES = ("goal", "guardrail", "diagnostic")


def _headline(row: AgreementRow) -> tuple[bool, int]:
    return row.offline != "auc", _ROLES.index(row.role)


def _causes(case: Case, facts: Frames | None) -> tuple[Cause, ...]:
    return ranked([cause_of(check, case, checked(check, case, facts)) for check in CAUSES], case)


def checked(check: CauseCheck, case: Case, facts: Frames | None) -> Finding | Unchecked:
    """What a cause says, or what it lacks."""
    if check.queries and facts is None:
        message = f"{check.name.capitalize()}: the logs would show {check.shows}"
        return Unchecked(message, ("the logs (abeval agree)",))
    there = facts or {}
    if any(name not in there for name in check.queries):
        missing = (c for c in needed(check) if c not in there[COLUMNS].columns)
        needs = tuple(dict.fromkeys(_IN_WORDS.get(name, name) for name in missing))
        listed = fmt.listing(needs)
        return Unchecked(f"{check.name.capitalize()}: {listed} would show {check.shows}", needs)
    return check.judge(case, there)


def needed(check: CauseCheck) -> tuple[str, ...]:
    """The columns of `agreement_rows` that its queries need."""
    return (*check.columns, "click") if check.queries else check.columns


_IN_WORDS: Mapping[str, str] = {
    "baseline": "scores of both models ([models])",
    "candidate": "scores of both models ([models])",
    "day": "ts",
    "training": "[logs.training]",
    "training_policy": "item_id and policy in [logs.training]",
    "training_scores": "the candidate's score and clicks in [logs.training]",
    **{name: f"[agreement] {name}" for name in AgreementColumns.model_fields},
}
"""Column of `agreement_rows` → what a user calls it, where that differs."""

COLUMNS = ""
"""Among the frames of the facts: one without rows, whose columns are those that the logs have."""
