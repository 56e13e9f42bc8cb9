"""Guess what a log shows of the experiment's design: its period, and the models it compares."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from abeval.drafts import words
from abeval.drafts.columns import FEW, Column, Table
from abeval.drafts.guess import Arms, names_control, time_guess, variant_candidates
from abeval.engines.protocol import Engine, whole
from abeval.engines.sql import quoted


@dataclass(frozen=True)
class Period:
    """When units had variants by this column, and the time before; ends are exclusive.

    `rows` is SQL that chooses the rows since its start.
    """

    variant: str
    rows: str
    before: date
    start: date | datetime
    end: date
    reason: str


def period_guess(engine: Engine, main: Table, placing: Table) -> Period | None:
    """Guess the period: from the first moment on at which a unit has its variant.

    `placing` has the variants, often the same table. None where the log begins with it.
    """
    time, own = time_guess(placing).column, time_guess(main).column
    named = [c for c in variant_candidates(placing) if c.named("variant")]
    if time is None or own is None or not named:
        return None
    variant, log = quoted(named[0].name), quoted(main.relation)
    ((first, last),) = engine.rows(f"select min({own.moment}), max({own.moment}) from {log}")
    values = engine.rows(
        f"select cast({variant} as varchar) as v, min({time.moment}) as t, count(*) as n "
        f"from {quoted(placing.relation)} where {variant} is not null group by v order by t"
    )
    times = [begin for _, begin, _ in values if isinstance(begin, datetime)]
    if not isinstance(first, datetime) or not isinstance(last, datetime) or len(times) < 2:
        return None
    start, reason, share = times[0], "no row before has a variant", 1.0
    if start.date() == first.date() and names_control(str(values[0][0])) and main is placing:
        start, reason = times[1], f"all rows before are of {values[0][0]!r}"
        share = 1 - whole(values[0][2]) / sum(whole(rows) for *_, rows in values)
    ((rows, early),) = engine.rows(
        f"select count(*), count_if({own.moment} >= '{start.date()}') "
        f"from {log} where {own.moment} < '{start}'"
    )
    # Of few rows, all may be of control by chance.
    if start.date() <= first.date() or whole(rows) * share < FEW:
        return None
    begins = start.replace(minute=0, second=0, microsecond=0) if early else start.date()
    end, since = last.date() + timedelta(days=1), f"{own.moment} >= '{begins.isoformat()}'"
    return Period(named[0].name, since, first.date(), begins, end, reason)


@dataclass(frozen=True)
class Models:
    """Columns with the predictions of models, and the model that each variant serves, if known."""

    scores: Mapping[str, Column]
    served: Mapping[str, str]


def models_guess(table: Table, arms: Arms, taken: Collection[str]) -> Models | None:
    """Guess the scores of several models: columns whose names differ in the model alone."""
    scores: dict[str, Column] = {}
    for column in table.columns:
        parts = words.words(column.name)
        model = "_".join(w for w in parts if not words.named(w, "model") and w not in _NO_MODEL)
        is_score = model and any(words.named(word, "model") for word in parts)
        is_share = column.is_number and (column.low or 0) >= 0 and (column.high or 0) <= 1
        if is_score and is_share and column.distinct > 2 and column.name not in taken:
            scores[model] = column
    if len(scores) < 2:
        return None
    served = {variant: variant for variant in arms.units if variant in scores}
    served.setdefault(arms.control, next((m for m in scores if names_control(m)), ""))
    left = [model for model in scores if model not in served.values()]
    for variant in arms.units:
        served.setdefault(variant, left[0] if len(left) == 1 else "")
    return Models(scores, served if {*served.values()} <= scores.keys() else {})


_NO_MODEL = ("ctr", "p", "model")
"""Words beside the name of a model, in that of its score."""
