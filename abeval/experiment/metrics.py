"""Make the metrics of an experiment: built-in ones, and those that its file defines or changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggestion
from abeval.experiment.sections import AbsoluteMargin, MetricChoice, Toward
from abeval.experiment.sources import Covariate
from abeval.metrics.builtin import builtin_metrics
from abeval.metrics.definition import (
    DECREASE,
    FUNCTION,
    INCREASE,
    QUANTILE,
    UNIT_DAY,
    ColumnTerm,
    Combine,
    Direction,
    Kind,
    Margin,
    Metric,
    Need,
    PerUnit,
    RowTerm,
    RowValue,
    Term,
    UnitTerm,
    events_of,
    own_terms,
    span_ms,
)
from abeval.metrics.row_text import columns_of, names_of


def table_covariates(experiment: Experiment) -> list[Covariate]:
    """The covariates of `[logs.units]`; none without such a table."""
    units = experiment.logs.units
    listed = [] if units is None else units.covariates
    return [Covariate(value=one) if isinstance(one, str) else one for one in listed]


def covariate_means(experiment: Experiment) -> tuple[Metric, ...]:
    """Each covariate of the table as a mean per unit, whether or not metrics are adjusted by it.

    The term is a covariate of the mean, which has no value of its own.
    """
    every = {covariate.value: covariate.resolution for covariate in table_covariates(experiment)}
    if experiment.of_units:
        for choice in experiment.metrics:
            for name in choice.covariates or ():
                every.setdefault(name, choice.resolution)
    return tuple(
        Metric(name, "mean", f"Σ {name} / units", covariates=(_term(experiment, name, resolution),))
        for name, resolution in every.items()
    )


def _term(experiment: Experiment, text: str, resolution: float) -> Term:
    if experiment.of_units:
        return RowTerm(text, resolution, resolution, of_unit=True)
    return UnitTerm(text, resolution)


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
    value = _combined_term(per_unit, "value", choice)
    return Metric(
        choice.name,
        "ratio" if is_ratio else "mean",
        _formula(choice),
        unit="share" if _is_share(choice) else "",
        role="goal",
        source=events_of("" if per_unit.is_funnel else per_unit.logs[0]),
        value=value,
        per=_combined_term(per_unit, "under", choice) if is_ratio else None,
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
    nulls = tuple(_null_row(log, where, text) for text in texts) if counted else ()
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


def _null_row(log: str, where: str | None, text: str) -> RowValue:
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


def _combined_term(per_unit: PerUnit, what: str, choice: MetricChoice) -> Term:
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


def known_metrics(experiment: Experiment) -> dict[str, Metric]:
    """Every built-in metric by name, with the experiment's thresholds; none of a table of units."""
    if experiment.of_units:
        return {}
    return builtin_metrics(experiment.clicks.long_seconds, experiment.sessions.gap_minutes)


def chosen_metrics(experiment: Experiment) -> tuple[Metric, ...]:
    """The metrics of the scorecard in the order of the file, with its roles and margins.

    A file that lists none gets every built-in metric, CTR as the goal.
    """
    known = known_metrics(experiment)
    if not experiment.metrics:
        return tuple(
            replace(metric, covariates=tuple(_of_table(experiment, metric)))
            for metric in known.values()
        )
    of_unit = experiment.of_units
    known |= {
        choice.name: _since_exposure(number, choice)
        if choice.of_events
        else _own(choice, of_unit=of_unit)
        for number, choice in enumerate(experiment.metrics)
        if choice.is_own and choice.function is None
    }
    functions = {
        c.name: _function(c.name, c.function, known)
        for c in experiment.metrics
        if c.function is not None
    }
    known |= functions
    return tuple(_chosen(c, known, _covariates(experiment, c, known)) for c in experiment.metrics)


def named_metrics(experiment: Experiment, names: Sequence[str] | None = None) -> Sequence[Metric]:
    """The metrics with these names, built-in ones too; without names, those of the scorecard.

    Raises:
        ExperimentError: There is no such metric.
    """
    chosen = chosen_metrics(experiment)
    if not names:
        return chosen
    known = known_metrics(experiment) | {metric.name: metric for metric in chosen}
    for name in names:
        if name not in known:
            raise ExperimentError(f"no metric is called {name!r}{suggestion(name, known)}")
    return [known[name] for name in names]


def _since_exposure(number: int, choice: MetricChoice) -> Metric:
    if is_sum_of_impressions(choice):
        return summed(choice, partial(_own, of_unit=False))
    return event_metric(number, choice, _NEEDED_BY)


def _function(name: str, text: str, known: Mapping[str, Metric]) -> Metric:
    """The user's own function of means and ratios."""
    parts = tuple(known[part] for part in names_of(text))
    needs = frozenset(need for part in parts for need in part.needs)
    return Metric(
        name,
        "function",
        text,
        role="goal",
        source=FUNCTION,
        function=text,
        parts=parts,
        needs=needs,
    )


def _covariates(
    experiment: Experiment, choice: MetricChoice, known: Mapping[str, Metric]
) -> list[Term]:
    """What is known of a unit before: sums of the pre-period, or columns of a table of units."""
    units = experiment.logs.units
    if not experiment.of_units or units is None:
        of_metrics = [term for name in choice.covariates or () for term in own_terms(known[name])]
        return [*of_metrics, *_of_table(experiment, known[choice.name])]
    if not known[choice.name].is_mean_or_ratio or experiment.inference.adjust == "none":
        return []
    every = table_covariates(experiment)
    if choice.covariates is not None:
        resolutions = {covariate.value: covariate.resolution for covariate in every}
        every = [
            Covariate(value=name, resolution=resolutions.get(name, choice.resolution))
            for name in choice.covariates
        ]
    return [RowTerm(c.value, c.resolution, c.resolution, of_unit=True) for c in every]


def _of_table(experiment: Experiment, metric: Metric) -> list[Term]:
    """Covariates from the table of units beside the impressions, for all means and ratios."""
    table = experiment.unit_table
    adjusts = experiment.inference.adjust in ("cuped", "regression")
    if table is None or not adjusts or not metric.is_mean_or_ratio:
        return []
    every = table_covariates(experiment)
    return [UnitTerm(covariate.value, covariate.resolution) for covariate in every]


def _chosen(choice: MetricChoice, known: Mapping[str, Metric], covariates: list[Term]) -> Metric:
    metric = known[choice.name]
    own = own_terms(metric)
    return replace(
        metric,
        role=choice.role or metric.role,
        direction=_direction(choice, metric.direction),
        unit=metric.unit if choice.unit is None else choice.unit,
        covariates=tuple(term for term in dict.fromkeys(covariates) if term not in own),
        margin=_margin(choice),
        cap=choice.cap,
    )


def _own(choice: MetricChoice, *, of_unit: bool) -> Metric:
    """The user's own metric: a mean of `value` per unit, or `numerator` over `denominator`.

    With `of_unit` its expressions are over a row that is a unit.
    """
    if choice.value is not None:
        value, per, formula = choice.value, None, f"Σ {choice.value} / units"
    else:
        value, per = str(choice.numerator), str(choice.denominator)
        formula = f"Σ {value} / Σ {per}"
    step = choice.resolution
    term = RowTerm(value, step, step, of_unit=of_unit)
    under = None if per is None else RowTerm(per, step, step, of_unit=of_unit)
    rows = "units" if of_unit else "impressions"
    kind: Kind = "mean" if under is None else "ratio"
    if choice.quantile is not None:
        kind, formula = (
            "quantile",
            f"{choice.quantile:g} quantile of {choice.value} over {rows}",
        )
    read = {c for text in (value, per) if text is not None for c in columns_of(text)}
    canonical = () if of_unit else read & _NEEDED_BY.keys()
    needs = frozenset(_NEEDED_BY[column] for column in canonical)
    texts = [text for text in dict.fromkeys((value, per)) if text is not None]
    no_numbers = tuple((_no_number(text, rows), _not_numbers(text, of_unit)) for text in texts)
    return Metric(
        choice.name,
        kind,
        formula,
        role="goal",
        source=QUANTILE if kind == "quantile" else UNIT_DAY,
        value=term,
        per=under,
        level=choice.quantile,
        needs=needs,
        left_out=no_numbers if kind == "quantile" else (),
        zeros=() if kind == "quantile" else no_numbers,
    )


def _no_number(text: str, rows: str) -> str:
    return f"{rows} whose {text} is null, NaN or infinite"


def _not_numbers(text: str, of_unit: bool) -> Term:
    """Counts rows whose value is not a number: a sum has 0 for them, a quantile nothing."""
    missing = f"case when abs(cast(({text}) as double)) < 1e300 then 0 else 1 end"
    return RowTerm(missing, of_unit=of_unit)


_NEEDED_BY: dict[str, Need] = {
    "click": "click",
    "dwell": "dwell",
    "dwell_ms": "dwell",
    "score": "score",
    "position": "position",
    "category": "category",
    "request_id": "request_id",
    "item_id": "item_id",
}


def _direction(choice: MetricChoice, default: Direction) -> Direction:
    match choice.direction:
        case None:
            return default
        case Toward(toward=value):
            return Direction(toward=value)
        case "increase":
            return INCREASE
        case "decrease":
            return DECREASE


def _margin(choice: MetricChoice) -> Margin | None:
    match choice.margin:
        case None:
            return None
        case AbsoluteMargin(absolute=size):
            return Margin(size, relative=False)
        case float(size):
            return Margin(size, relative=True)
