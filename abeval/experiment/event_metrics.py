"""Metrics of a unit since its exposure: what the file says, as rows of logs and how they combine.

`metrics.py` calls it for every metric with `per_unit`, `log`, `where`, `within`, `retention` or
`funnel`; `event_rules.py` has checked the entries.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from abeval.experiment.sections import MetricChoice
from abeval.metrics.definition import (
    ColumnTerm,
    Combine,
    Metric,
    Need,
    PerUnit,
    RowValue,
    Term,
    events_of,
    span_ms,
)
from abeval.metrics.row_text import columns_of

IMPRESSIONS, CLICKS, UNITS = "impressions", "clicks", "units"

_COMBINED = {
    "any": "units with {value} of {log}",
    "sum": "Σ {value} of {log}",
    "max": "largest {value} of {log}",
    "count_distinct": "distinct {value} of {log}",
    "first": "{value} of the first of {log}",
}


def event_metric(number: int, choice: MetricChoice, needed_by: dict[str, Need]) -> Metric:
    """The metric of an entry.

    Args:
        number: Its place in the file.
        choice: The entry.
        needed_by: What the impressions must have for an expression to read a column.
    """
    per_unit = _per_unit(number, choice)
    is_ratio = choice.denominator is not None
    value = _term(per_unit, "value", choice)
    return Metric(
        choice.name,
        "ratio" if is_ratio else "mean",
        _formula(choice),
        unit="share" if _is_share(choice) else "",
        role="goal",
        source=events_of("" if per_unit.is_funnel else per_unit.logs[0]),
        value=value,
        per=_term(per_unit, "under", choice) if is_ratio else None,
        needs=_needs(choice, per_unit, needed_by),
        left_out=_left_out(choice, per_unit),
        zeros=_zeros(choice, per_unit),
        per_unit=per_unit,
        among=ColumnTerm(f"c_{per_unit.column('whole')}") if per_unit.is_timed else None,
    )


def is_sum_of_impressions(choice: MetricChoice) -> bool:
    """Whether a metric adds up impressions of the whole period: then its days add up too."""
    since = choice.within or choice.retention is not None or choice.funnel is not None
    rows = (choice.log or IMPRESSIONS) in (IMPRESSIONS, CLICKS)
    return rows and not since and combined_by(choice) == "sum"


def summed(choice: MetricChoice, own: Callable[[MetricChoice], Metric]) -> Metric:
    """The metric of such an entry, as one of impressions whose other rows are worth 0.

    Args:
        choice: The entry.
        own: Makes the metric of an entry of impressions.
    """
    counts = _condition(choice.log or IMPRESSIONS, choice.where)

    def counted(text: str | None) -> str | None:
        if text is None or counts == "true":
            return text
        return f"case when {counts} then ({text}) else 0 end"

    parts = {key: counted(getattr(choice, key)) for key in ("value", "numerator", "denominator")}
    metric = own(choice.model_copy(update=parts))
    rows = _rows(choice.log or IMPRESSIONS, choice.where)
    zeros = zip(_texts(choice), metric.zeros, strict=True)
    return replace(
        metric,
        formula=_formula(choice),
        zeros=tuple((_missing(rows, text), term) for text, (_, term) in zeros if _columns([text])),
    )


def _missing(rows: str, text: str) -> str:
    return f"{rows} whose {text} is null, NaN or infinite"


def _per_unit(number: int, choice: MetricChoice) -> PerUnit:
    within = None if choice.within is None else span_ms(choice.within)
    if choice.funnel is not None:
        steps = tuple(_row(step.log, step.where) for step in choice.funnel)
        return PerUnit(number, steps, within_ms=within, is_funnel=True)
    log, where = choice.log or IMPRESSIONS, choice.where
    if choice.retention is not None:
        return PerUnit(number, (_row(log, where),), day=choice.retention)
    combine = combined_by(choice)
    texts = _texts(choice)
    values = tuple(_value(log, where, text, combine, choice.resolution) for text in texts)
    counted = combine in ("sum", "max", "first")
    nulls = tuple(_no_number(log, where, text) for text in texts) if counted else ()
    return PerUnit(number, values or (_row(log, where, combine),), nulls, within)


def combined_by(choice: MetricChoice) -> Combine:
    """How a unit's rows are combined; without a value, whether it has any."""
    if choice.per_unit is not None:
        return choice.per_unit
    return "any" if choice.value is None and choice.numerator is None else "sum"


def _row(log: str, where: str | None, combine: Combine = "any") -> RowValue:
    """1 for each row that counts."""
    return RowValue(_rows_of(log), f"case when {_condition(log, where)} then 1 end", combine)


def _value(log: str, where: str | None, text: str, combine: Combine, resolution: float) -> RowValue:
    counts, rows = _condition(log, where), _rows_of(log)
    if combine == "count_distinct":
        return RowValue(rows, f"case when {counts} then ({text}) end", combine)
    if combine == "any":
        number = f"abs(cast(({text}) as double))"
        test = f"{number} > 0 and {number} < 1e300"
        return RowValue(rows, f"case when {counts} and {test} then 1 end", combine)
    number = f"case when {counts} then cast(({text}) as double) end"
    return RowValue(rows, number, combine, resolution)


def _no_number(log: str, where: str | None, text: str) -> RowValue:
    missing = f"case when abs(cast(({text}) as double)) < 1e300 then 0 else 1 end"
    expression = f"case when {_condition(log, where)} then {missing} end"
    return RowValue(_rows_of(log), expression, "sum")


def _rows_of(log: str) -> str:
    """Clicks are clicked impressions, at the time of the impression."""
    return IMPRESSIONS if log == CLICKS else log


def _condition(log: str, where: str | None) -> str:
    tests = ["click = 1"] if log == CLICKS else []
    tests += [] if where is None else [f"coalesce(cast(({where}) as boolean), false)"]
    return " and ".join(tests) or "true"


def _term(per_unit: PerUnit, what: str, choice: MetricChoice) -> Term:
    step = per_unit.values[0].resolution
    column = f"c_{per_unit.column(what)}"
    return ColumnTerm(column) if step is None else ColumnTerm(column, choice.resolution, True)


def _is_share(choice: MetricChoice) -> bool:
    of_rows = choice.funnel is not None or choice.retention is not None
    return of_rows or (choice.denominator is None and combined_by(choice) == "any")


def _formula(choice: MetricChoice) -> str:
    if choice.funnel is not None:
        steps = ", then ".join(_rows(step.log, step.where) for step in choice.funnel)
        return f"units with {steps}{_window(choice)} / units"
    rows = _rows(choice.log or IMPRESSIONS, choice.where)
    if choice.retention is not None:
        return f"units with {rows} on day {choice.retention} since exposure / units"
    if choice.denominator is not None:
        under = f"Σ {choice.denominator} of {rows}"
        return f"Σ {choice.numerator} of {rows} / {under}{_window(choice)}"
    if choice.value is None:
        return f"units with {rows}{_window(choice)} / units"
    text = _COMBINED[combined_by(choice)].format(value=choice.value, log=rows)
    return f"{text}{_window(choice)} / units"


def _rows(log: str, where: str | None) -> str:
    return log if where is None else f"{log} where {where}"


def _window(choice: MetricChoice) -> str:
    return "" if choice.within is None else f" within {choice.within} since exposure"


def _needs(choice: MetricChoice, per_unit: PerUnit, needed_by: dict[str, Need]) -> frozenset[Need]:
    """What the impressions must have."""
    needs: set[Need] = {"unit"}
    if IMPRESSIONS not in per_unit.logs:
        return frozenset(needs)
    timed = per_unit.is_timed or per_unit.is_funnel or combined_by(choice) == "first"
    needs |= {"ts"} if timed else set()
    texts = [value.expression for value in per_unit.values if value.log == IMPRESSIONS]
    return frozenset(needs | {needed_by[c] for c in _columns(texts) if c in needed_by})


def _columns(texts: Iterable[str]) -> set[str]:
    return {column for text in texts for column in columns_of(text)}


def _left_out(choice: MetricChoice, per_unit: PerUnit) -> tuple[tuple[str, Term], ...]:
    if not per_unit.is_timed:
        return ()
    what = f"day {choice.retention}" if choice.within is None else choice.within
    words = f"units whose {what} since exposure had not ended"
    return ((words, ColumnTerm(f"c_{per_unit.column('open')}")),)


def _zeros(choice: MetricChoice, per_unit: PerUnit) -> tuple[tuple[str, Term], ...]:
    texts = _texts(choice)
    rows = _rows(choice.log or IMPRESSIONS, choice.where)
    return tuple(
        (_missing(rows, text), ColumnTerm(f"c_{_null(per_unit, i)}"))
        for i, text in enumerate(texts[: len(per_unit.nulls)])
        if _columns([text])
    )


def _texts(choice: MetricChoice) -> list[str]:
    return [text for text in (choice.value, choice.numerator, choice.denominator) if text]


def _null(per_unit: PerUnit, place: int) -> str:
    return per_unit.column("null" if place == 0 else "null_under")
