"""An analysis and a replay → their agreement; with the facts of the logs, all causes are checked.

`agree.py` calls it with facts; `Result.compare` without, through `results/views.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from abeval.agreement.case import Case, CauseCheck, Finding, Frames, Unchecked
from abeval.agreement.causes import CAUSES
from abeval.agreement.compare import cause_of
from abeval.agreement.rows import agreement_rows, decompositions, matrix, position_rates
from abeval.experiment.model import Experiment
from abeval.experiment.sections import AgreementColumns
from abeval.results import format as fmt
from abeval.results.agreement import (
    AGREEMENT_SCHEMA_VERSION,
    Agreement,
    AgreementRow,
    Backtest,
    Cause,
)
from abeval.results.analysis import Result
from abeval.results.replay import ReplayResult

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
