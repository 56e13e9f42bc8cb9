"""Make the metrics of an experiment, built-in ones and those of its file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from abeval.errors import ExperimentError
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggest_name
from abeval.experiment.sections import AbsoluteMargin, MetricChoice, Range, Step
from abeval.experiment.sources import Covariate
from abeval.metrics import definition
from abeval.metrics.builtin import find_added_metrics, load_builtin_metrics
from abeval.metrics.definition import ColumnTerm, Combine, Metric, Missing, Need, RowTerm, Term
from abeval.metrics.row_text import find_function_problem, list_columns, list_metric_names

IMPRESSIONS, CLICKS, UNITS = "impressions", "clicks", "units"


def list_available_metrics(experiment: Experiment, names: Iterable[str] = ()) -> dict[str, Metric]:
    """Return the built-in metrics by name; none for a table of units.

    If the file names others, or `names` has others, also those that were added from outside.
    """
    if experiment.is_unit_table:
        return {}
    # The file sets the thresholds of long clicks and sessions.
    builtin = load_builtin_metrics(experiment.clicks.long_seconds, experiment.sessions.gap_minutes)
    own = {choice.name for choice in experiment.metrics if choice.is_own}
    named = {*names, *_list_named(experiment)} - builtin.keys() - own
    added = find_added_metrics(named) if named else {}
    # The file is nearer to its reader than other packages: its own definition wins.
    return builtin | {name: metric for name, metric in added.items() if name not in own}


def _list_named(experiment: Experiment) -> Iterator[str]:
    """List the metrics that the file names, also in functions and as covariates."""
    for choice in experiment.metrics:
        yield choice.name
        yield from choice.covariates or ()
        if choice.function is not None and find_function_problem(choice.function) is None:
            yield from list_metric_names(choice.function)


def list_scorecard_metrics(experiment: Experiment) -> tuple[Metric, ...]:
    """Return the metrics of the scorecard, in the order of the file.

    A file that lists none gets the built-in metrics, CTR as the goal, but for those that ask how
    items were before the period. Where clusters were randomised, a mean over their units is a
    ratio: Σ value / Σ units.
    """
    metrics = _list_metrics(experiment)
    if experiment.design is None:
        return metrics
    return tuple(replace(m, kind="ratio") if m.kind == "mean" else m for m in metrics)


def _list_metrics(experiment: Experiment) -> tuple[Metric, ...]:
    """List the file's metrics, or by default the built-in ones."""
    metrics, choices = list_available_metrics(experiment), experiment.metrics
    if not choices:
        return tuple(
            replace(metric, covariates=tuple(_list_table_terms(experiment, metric)))
            for metric in metrics.values()
            # Metrics of how items were before the period are for files that ask for them.
            if not metric.source.of_past
        )
    for number, choice in enumerate(choices):
        if choice.is_since_exposure:
            metrics[choice.name] = _define_metric_since_exposure(number, choice)
        elif choice.texts:
            metrics[choice.name] = define_metric(choice, of_unit=experiment.is_unit_table)
    metrics |= {
        c.name: _define_function_metric(c.name, c.function, metrics) for c in choices if c.function
    }
    return tuple(_apply_choice(choice, metrics, experiment) for choice in choices)


def find_metrics_by_name(
    experiment: Experiment, names: Sequence[str] | None = None
) -> Sequence[Metric]:
    """Find metrics by name, built-in ones too; by default those of the scorecard."""
    chosen = list_scorecard_metrics(experiment)
    if not names:
        return chosen
    metrics = list_available_metrics(experiment, names) | {metric.name: metric for metric in chosen}
    for name in names:
        if name not in metrics:
            raise ExperimentError(f"no metric is called {name!r}{suggest_name(name, metrics)}")
    return [metrics[name] for name in names]


def _list_table_covariates(experiment: Experiment) -> dict[str, float]:
    """Return the covariates of `[logs.units]`: expression → resolution."""
    units = experiment.logs.units
    entries = [] if units is None else units.covariates
    every = (Covariate(value=entry) if isinstance(entry, str) else entry for entry in entries)
    return {covariate.value: covariate.resolution for covariate in every}


def define_covariate_means(experiment: Experiment) -> tuple[Metric, ...]:
    """Make the covariates of the table of units as means per unit."""
    every = _list_table_covariates(experiment)
    if experiment.is_unit_table:
        for choice in experiment.metrics:
            for name in choice.covariates or ():
                every.setdefault(name, choice.resolution)
    return tuple(
        Metric(
            text,
            "mean",
            f"Σ {text} / units",
            covariates=(_define_unit_term(experiment, text, step),),
        )
        for text, step in every.items()
    )


def _define_unit_term(experiment: Experiment, text: str, step: float) -> Term:
    if experiment.is_unit_table:
        return RowTerm(text, step, step, of_unit=True)
    return definition.UnitTerm(text, step)


def _list_covariates(
    experiment: Experiment, choice: MetricChoice, metrics_by_name: Mapping[str, Metric]
) -> list[Term]:
    """List the covariates of a metric: pre-period sums, or columns of a table."""
    if not experiment.is_unit_table:
        metric_terms = [
            term
            for name in choice.covariates or ()
            for term in definition.list_value_terms(metrics_by_name[name])
        ]
        return [*metric_terms, *_list_table_terms(experiment, metrics_by_name[choice.name])]
    if not metrics_by_name[choice.name].is_mean_or_ratio or experiment.inference.adjust == "none":
        return []
    every = _list_table_covariates(experiment)
    names = every if choice.covariates is None else choice.covariates
    return _unit_terms(experiment, {name: every.get(name, choice.resolution) for name in names})


def _list_table_terms(experiment: Experiment, metric: Metric) -> list[Term]:
    """List covariates from a table of units beside the impressions."""
    adjusts = experiment.inference.adjust in ("cuped", "regression")
    if experiment.unit_table is None or not adjusts or not metric.is_mean_or_ratio:
        return []
    return _unit_terms(experiment, _list_table_covariates(experiment))


def _unit_terms(experiment: Experiment, covariates: Mapping[str, float]) -> list[Term]:
    """List covariates of a table of units, and for each whether a unit has it."""
    terms = [_define_unit_term(experiment, text, step) for text, step in covariates.items()]
    # Who lacks a value is a covariate too: then it does not matter what stands in its place.
    tests = [_count_numbers([text], marks_finite=True, of_unit=True) for text in covariates]
    if experiment.is_unit_table:
        return [*terms, *tests]
    return [*terms, *(definition.UnitTerm(test.expression, 1.0) for test in tests)]


def _apply_choice(
    choice: MetricChoice, metrics_by_name: Mapping[str, Metric], experiment: Experiment
) -> Metric:
    metric = metrics_by_name[choice.name]
    covariates = _list_covariates(experiment, choice, metrics_by_name)
    metric_terms = definition.list_value_terms(metric)
    return replace(
        metric,
        role=choice.role or metric.role,
        direction=definition.DIRECTIONS.get(choice.direction or "", metric.direction),
        unit=metric.unit if choice.unit is None else choice.unit,
        label=choice.label or "",
        description=choice.description or "",
        covariates=tuple(term for term in dict.fromkeys(covariates) if term not in metric_terms),
        margin=_define_margin(choice),
        within=choice.margin.within if isinstance(choice.margin, Range) else None,
        cap=choice.cap,
        test=choice.test or metric.test,
    )


def _define_function_metric(name: str, text: str, metrics_by_name: Mapping[str, Metric]) -> Metric:
    parts = tuple(metrics_by_name[part] for part in list_metric_names(text))
    needs = frozenset(need for part in parts for need in part.needs)
    metric = Metric(name, "function", text, role="goal", source=definition.FUNCTION)
    return replace(metric, function=text, parts=parts, needs=needs)


def _choose_missing(choice: MetricChoice, *, of_unit: bool) -> Missing:
    """Choose what happens to rows without a value."""
    if choice.missing is None:
        # Of a unit's only row nobody but the user can say whether a null is 0.
        return "refuse" if of_unit else "zero" if choice.quantile is None else "drop"
    return choice.missing


def define_metric(choice: MetricChoice, *, of_unit: bool = False) -> Metric:
    """Define the user's mean, ratio or quantile, over rows or units."""
    step, counts = choice.resolution, choice.rows.condition
    does = _choose_missing(choice, of_unit=of_unit)
    term, rows = partial(RowTerm, of_unit=of_unit), "units" if of_unit else choice.rows
    # Rows that do not count are worth 0.
    every = counts == "true"
    worth = {t: t if every else f"case when {counts} then ({t}) else 0 end" for t in choice.texts}
    values, numbers = [worth[text] for text in choice.texts], _write_finite_test(worth.values())
    count = partial(_count_numbers, of_unit=of_unit)
    lacking = tuple(
        (
            _describe_missing_values(rows, texts),
            count([worth[text] for text in texts], marks_finite=False),
        )
        for texts in _group_nullable_texts(choice, does)
    )
    presence: tuple[Term, Term] | None = None
    if does == "drop" and lacking:
        if len(values) == 2:
            values = [f"case when {numbers} then ({value}) end" for value in values]
        present = count([*worth.values()], marks_finite=True)
        if not every:
            present = term(f"case when {counts} and {numbers} then 1 else 0 end")
        presence = present, lacking[0][1]
    metric = Metric(
        choice.name,
        "mean",
        f"Σ {choice.texts[0]} / units",
        role="goal",
        value=term(values[0], step, step),
        needs=frozenset[Need]() if of_unit else _needs(worth.values()),
        lacking=lacking,
        missing=does,
        presence_terms=presence,
    )
    if choice.quantile is not None:
        formula = f"{choice.quantile:g} quantile of {choice.value} over {rows}"
        metric = replace(metric, kind="quantile", formula=formula, source=definition.QUANTILE)
        # An impression without a value is none of those that are ranked; a unit is missing.
        return replace(metric, level=choice.quantile, presence_terms=presence if of_unit else None)
    if len(values) == 1:
        return metric
    formula = f"Σ {choice.numerator} / Σ {choice.denominator}"
    return replace(metric, kind="ratio", formula=formula, per=term(values[1], step, step))


def _group_nullable_texts(choice: MetricChoice, does: Missing) -> list[list[str]]:
    """Group the expressions that can lack a value."""
    texts = [text for text in dict.fromkeys(choice.texts) if list_columns(text)]
    # Nulls that count as 0 do so one by one; a dropped row is dropped for both parts of a ratio.
    return [[text] for text in texts] if does == "zero" else [texts] if texts else []


def _needs(texts: Iterable[str]) -> frozenset[Need]:
    read = {column for text in texts for column in list_columns(text)}
    needs: dict[str, Need] = {**definition.ROW_NEEDS, "dwell": "dwell"}
    return frozenset(needs[column] for column in read & needs.keys() - {"time_ms"})


def _describe_missing_values(rows: object, texts: Sequence[str]) -> str:
    return f"{rows} whose {' or '.join(texts)} is null, NaN or infinite"


def _write_finite_test(texts: Iterable[str]) -> str:
    """Write SQL that is true if every value is a finite number."""
    # One comparison is false for null, NaN and infinity in every engine.
    return " and ".join(f"abs(cast(({text}) as double)) < 1e300" for text in texts)


def _count_numbers(texts: Sequence[str], *, marks_finite: bool, of_unit: bool = False) -> RowTerm:
    """Count rows of which all values are numbers, or those of which one is none."""
    counted = (
        f"case when {_write_finite_test(texts)} then {marks_finite:d} else {not marks_finite:d} end"
    )
    return RowTerm(counted, of_unit=of_unit, test=definition.NumberTest(tuple(texts), marks_finite))


def _define_metric_since_exposure(number: int, choice: MetricChoice) -> Metric:
    """Make a metric of a unit's rows since its exposure."""
    is_sum = choice.rows.log in (IMPRESSIONS, CLICKS) and choice.combined_by == "sum"
    # A sum over all impressions is a plain metric: it needs no exposure.
    if is_sum and choice.within is None:
        return replace(define_metric(choice), formula=_write_formula(choice))
    per_unit, is_ratio = _define_unit_value(number, choice), choice.denominator is not None
    step, is_any = per_unit.values[0].resolution, choice.combined_by == "any"

    def column(what: str, scale: float | None = None) -> ColumnTerm:
        name = f"c_{per_unit.column(what)}"
        return ColumnTerm(name) if scale is None else ColumnTerm(name, scale, rounded=True)

    texts = [value.expression for value in per_unit.values if value.log == IMPRESSIONS]
    has_times = per_unit.is_timed or per_unit.is_funnel or choice.combined_by == "first"
    needs: set[Need] = {"unit", "ts"} if texts and has_times else {"unit"}
    window = f"day {choice.retention}" if choice.within is None else choice.within
    open_units = f"units whose {window} since exposure had not ended"
    does = _choose_missing(choice, of_unit=False)
    nulls = zip(("null", "null_under"), _group_nullable_texts(choice, does), strict=False)
    lacking = tuple(
        (_describe_missing_values(choice.rows, texts), column(null)) for null, texts in nulls
    )
    return Metric(
        choice.name,
        "ratio" if is_ratio else "mean",
        _write_formula(choice),
        unit="share" if is_any and not is_ratio else "",
        role="goal",
        source=definition.build_events_source("" if per_unit.is_funnel else per_unit.logs[0]),
        value=column("value", step),
        per=column("under", step) if is_ratio else None,
        needs=_needs(texts) | needs,
        left_out=((open_units, column("open")),) if per_unit.is_timed else (),
        lacking=lacking if per_unit.nulls else (),
        missing=does,
        presence_terms=(column("known"), column("null")) if per_unit.presence else None,
        per_unit=per_unit,
        among=column("whole") if per_unit.is_timed else None,
    )


def _define_unit_value(number: int, choice: MetricChoice) -> definition.PerUnit:
    """Define the value of each row to a unit, and how rows are combined."""
    within = None if choice.within is None else definition.span_ms(choice.within)
    if choice.funnel is not None:
        steps = tuple(_define_row_value(step, "1") for step in choice.funnel)
        return definition.PerUnit(number, steps, within_ms=within, is_funnel=True)
    combine, texts = choice.combined_by, choice.texts
    nulls, known_values = tuple[definition.RowValue, ...](), tuple[definition.RowValue, ...]()
    if combine == "count_distinct":
        values = [_define_row_value(choice.rows, f"({text})", combine) for text in texts]
    elif combine == "any":
        numbers = [f"abs(cast(({text}) as double))" for text in texts]
        tests = [f" and {n} > 0 and {n} < 1e300" for n in numbers] or [""]
        values = [_define_row_value(choice.rows, "1", also=test) for test in tests]
    else:
        step, does = choice.resolution, _choose_missing(choice, of_unit=False)
        groups = _group_nullable_texts(choice, does)
        lacking = (_count_numbers(group, marks_finite=False).expression for group in groups)
        nulls = tuple(_define_row_value(choice.rows, count, "sum") for count in lacking)
        also = f" and {_write_finite_test(texts)}" if does == "drop" and groups else ""
        worths = [f"cast(({text}) as double)" for text in texts]
        values = [_define_row_value(choice.rows, worth, combine, step, also) for worth in worths]
        known_values = (_define_row_value(choice.rows, "1", "sum", also=also),) if also else ()
    return definition.PerUnit(number, tuple(values), nulls, known_values, within, choice.retention)


def _define_row_value(
    rows: Step, worth: str, combine: Combine = "any", step: float | None = None, also: str = ""
) -> definition.RowValue:
    """Define the value of the rows that count."""
    # Clicks are columns of impressions, at the time of the impression.
    log = IMPRESSIONS if rows.log == CLICKS else rows.log
    case = f"case when {rows.condition}{also} then {worth} end"
    return definition.RowValue(log, case, combine, step)


_COMBINED = {
    "any": "units with {value} of {log}",
    "sum": "Σ {value} of {log}",
    "max": "largest {value} of {log}",
    "count_distinct": "distinct {value} of {log}",
    "first": "{value} of the first of {log}",
}


def _write_formula(choice: MetricChoice) -> str:
    """Write the formula of a metric since exposure in words."""
    rows = choice.rows
    window = "" if choice.within is None else f" within {choice.within} since exposure"
    if choice.denominator is not None:
        return f"Σ {choice.numerator} of {rows} / Σ {choice.denominator} of {rows}{window}"
    if choice.funnel is not None:
        what = f"units with {', then '.join(map(str, choice.funnel))}"
    elif choice.retention is not None:
        what = f"units with {rows} on day {choice.retention} since exposure"
    elif choice.value is None:
        what = f"units with {rows}"
    else:
        what = _COMBINED[choice.combined_by].format(value=choice.value, log=rows)
    return f"{what}{window} / units"


def _define_margin(choice: MetricChoice) -> definition.Margin | None:
    match choice.margin:
        case AbsoluteMargin(absolute=size):
            return definition.Margin(size, relative=False)
        case float(size):
            return definition.Margin(size, relative=True)
        case _:
            return None
