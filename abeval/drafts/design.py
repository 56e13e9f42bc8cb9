"""Guess what a log shows of the experiment's design: its period, and the models it compares."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from abeval.drafts import words
from abeval.drafts.columns import FEW, Column, Table
from abeval.drafts.guess import Arms, names_control, time_guess, variant_candidates
from abeval.drafts.others import moment
from abeval.engines.protocol import Engine, whole
from abeval.engines.sql import quoted


@dataclass(frozen=True)
class Period:
    """When units had variants by this column, and the time before; ends are exclusive."""

    variant: str
    before: date
    start: date | datetime
    end: date
    reason: str


def period_guess(engine: Engine, main: Table, placing: Table) -> Period | None:
    """Guess the period: from the first moment on at which a unit has its variant.

    `placing` has the variants, often the same table. None where the log begins with it.
    """
    time, own = time_guess(placing).column, time_guess(main).column
    named = [
        c for c in variant_candidates(placing) if words.named(c.name, words.VARIANT) is not None
    ]
    if time is None or own is None or not named:
        return None
    variant, main_time = quoted(named[0].name), moment(own)
    firsts = engine.rows(
        f"select cast({variant} as varchar) as v, min({moment(time)}) as t "
        f"from {quoted(placing.relation)} where {variant} is not null group by v order by t"
    )
    ((first, last),) = engine.rows(
        f"select min({main_time}), max({main_time}) from {quoted(main.relation)}"
    )
    times = [moment for _, moment in firsts if isinstance(moment, datetime)]
    if not isinstance(first, datetime) or not isinstance(last, datetime) or len(times) < 2:
        return None
    start, reason = times[0], "no row before has a variant"
    if times[0].date() == first.date() and names_control(str(firsts[0][0])):
        start, reason = times[1], f"all rows before are of {firsts[0][0]!r}"
    if start.date() <= first.date():
        return None
    ((rows, early),) = engine.rows(
        f"select count(*), count_if({main_time} >= {_literal(start.date())}) "
        f"from {quoted(main.relation)} where {main_time} < {_literal(start)}"
    )
    if whole(rows) < FEW:
        return None
    begins = start.replace(minute=0, second=0, microsecond=0) if early else start.date()
    return Period(named[0].name, first.date(), begins, last.date() + timedelta(days=1), reason)


def _literal(moment: date) -> str:
    return f"timestamp '{moment.isoformat()}'"


@dataclass(frozen=True)
class Models:
    """Columns with the predictions of models, and the model that each variant serves, if known."""

    scores: Mapping[str, Column]
    served: Mapping[str, str]


def models_guess(table: Table, arms: Arms, taken: Collection[str]) -> Models | None:
    """Guess the scores of several models: columns whose names differ in the model alone."""
    by_score: dict[str, dict[str, Column]] = {}
    for column in table.columns:
        parts = words.words(column.name)
        score = next((part for part in parts if part in _SCORES), None)
        model = "_".join(part for part in parts if part not in (score, "ctr", "p", "model"))
        is_share = column.is_number and (column.low or 0) >= 0 and (column.high or 0) <= 1
        if score and model and is_share and column.distinct > 2 and column.name not in taken:
            by_score.setdefault(score, {})[model] = column
    scores = max(by_score.values(), key=len, default={})
    if len(scores) < 2:
        return None
    served = {variant: model for variant in arms.units for model in scores if variant == model}
    served.setdefault(arms.control, next((m for m in scores if names_control(m)), ""))
    left = [model for model in scores if model not in served.values()]
    for variant in arms.units:
        served.setdefault(variant, left[0] if len(left) == 1 else "")
    is_clear = set(served.values()) <= scores.keys()
    return Models(scores, served if is_clear else {})


_SCORES = ("score", "scores", "pctr", "pred", "prediction", "probability", "prob")
