"""Find contradictions in the entries of metrics and inference."""

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

from abeval.bounds import MAX_WINDOW_DAYS
from abeval.errors import ExperimentError
from abeval.experiment.added import find_test
from abeval.experiment.metrics import CLICKS, IMPRESSIONS, UNITS
from abeval.experiment.model import Experiment
from abeval.experiment.problems import Path, suggest_name
from abeval.experiment.sections import MetricChoice, Range, Step, convert_to_datetime
from abeval.experiment.sources import ROW_UNIT
from abeval.metrics.definition import UNIT_DAY, Metric, span_ms
from abeval.metrics.row_text import (
    find_expression_problem,
    find_function_problem,
    list_columns,
    list_metric_names,
)

Mistakes = Iterator[tuple[str | int, ...]]
"""Keys below a section, then the message."""

_Metrics = Mapping[str, Metric | MetricChoice]
"""Name → metric: built-in ones, and the file's own as they stand there."""

_DAY_MS = 86_400_000
_NO_TIMES = "a table of units has no times"


def check_expression(text: str | None, *where: str | int) -> Mistakes:
    """Check that a text is a SQL expression over a row."""
    if text is not None and (problem := find_expression_problem(text)):
        yield *where, problem


def check_metrics(experiment: Experiment, builtin: Mapping[str, Metric]) -> Mistakes:
    """Check each metric of the file."""
    own = {choice.name: choice for choice in experiment.metrics if choice.is_own}
    for i, choice in enumerate(experiment.metrics):
        for wrong in _check_metric(choice, experiment, builtin, {**builtin, **own}):
            yield i, *wrong


def _check_metric(
    choice: MetricChoice,
    experiment: Experiment,
    builtins: Mapping[str, Metric],
    metrics: _Metrics,
) -> Mistakes:
    builtin, inference = builtins.get(choice.name), experiment.inference
    definition = metrics.get(choice.name, choice)
    yield from _check_definition(choice, builtins)
    if choice.is_since_exposure:
        yield from _check_since_exposure(choice, experiment)
    if choice.function is not None:
        yield from _check_function(choice.function, metrics)
    role = choice.role or ("goal" if builtin is None else builtin.role)
    if role == "guardrail" and choice.margin is None:
        harm = "the largest harm that is allowed: 0.02 is 2 % of control"
        yield "margin", f"a guardrail needs a margin, {harm}"
    yield from _check_target(choice, role, builtin)
    if choice.cap is not None:
        if choice.quantile is not None or (builtin is not None and not builtin.source.can_cap):
            yield "cap", f"{choice.name} has no totals per unit to cap"
        if inference.adjust == "stratify":
            yield "cap", 'can be used with adjust = "cuped" or "regression", not with "stratify"'
        if inference.resample is not None:
            yield "cap", "cannot be used with [inference] resample"
    test = choice.test or (None if builtin is None else builtin.test)
    if test is not None:
        yield from _check_test(test, definition, experiment)
    if choice.covariates is not None:
        yield from _check_covariates(choice, definition, experiment, metrics)
    if choice.weight is not None and inference.family != "weighted":
        yield "weight", 'is used only with [inference] family = "weighted"'
    if choice.weight is not None and choice.role not in (None, "goal"):
        yield "weight", "is only for goals: it is the goal's share of alpha"


def _check_test(test: str, definition: Metric | MetricChoice, experiment: Experiment) -> Mistakes:
    """Check that an added test statistic is there, and that it decides."""
    try:
        find_test(test)
    except ExperimentError as error:
        yield "test", error.what
    if not _is_mean(definition):
        yield "test", f"{definition.name} is not a mean or a ratio"
    inference = experiment.inference
    others = {
        "[inference] resample": inference.resample is not None,
        'adjust = "stratify"': inference.adjust == "stratify",
        "[design]": experiment.design is not None,
    }
    for other in (name for name, is_set in others.items() if is_set):
        yield "test", f"cannot be used with {other}, which has tests of its own"


def _check_target(choice: MetricChoice, role: str, builtin: Metric | None) -> Mistakes:
    """Check metrics that should meet a value or stay within a range."""
    within = choice.margin.within if isinstance(choice.margin, Range) else None
    if within is not None and within[0] >= within[1]:
        yield "margin", f"within should be [LOW, HIGH] with low below high (got {[*within]})"
    # Calibration should be 1: neither more nor less is better.
    has_target = builtin is not None and builtin.has_target and choice.direction is None
    if role != "diagnostic" and has_target and within is None:
        what = f"{choice.name} should meet a value, and neither way is better: make it a guardrail"
        yield "margin", f"{what} with margin = {{ within = [LOW, HIGH] }}, or a diagnostic"
    if within is not None and role != "guardrail":
        yield "margin", "a range is the margin of a guardrail"
    kind = "quantile" if choice.quantile is not None else builtin and builtin.kind
    if within is not None and kind in ("quantile", "catalogue"):
        yield "margin", f"the value of {choice.name} has no interval"


_TEXTS = ("value", "numerator", "denominator")
_COUNTS = ("any", "count_distinct")
_EVENT_KEYS = ("log", "per_unit", "where", "within", "retention", "funnel")


def _list_set_keys(choice: MetricChoice, keys: Collection[str]) -> list[str]:
    return [key for key in keys if getattr(choice, key) is not None]


def _check_definition(choice: MetricChoice, builtin: Mapping[str, Metric]) -> Mistakes:
    """Check the definition of a metric: built-in, or by one kind of expression."""
    if not choice.is_own:
        if choice.quantile is not None:
            yield "quantile", "needs `value`, the expression whose quantile is computed"
        if choice.missing is not None and choice.name in builtin:
            yield "missing", f"{choice.name} is built in: its definition says what it leaves out"
        if choice.name not in builtin:
            known = "; `abeval tools metrics` lists the built-in ones"
            hint = suggest_name(choice.name, builtin) or known
            alternative = "or give `value`, or `numerator` and `denominator`"
            yield "name", f"no built-in metric is called {choice.name!r}{hint} ({alternative})"
        return
    if choice.name in builtin:
        yield "name", f"{choice.name!r} is a built-in metric; choose another"
    if choice.function is not None:
        for key in _list_set_keys(choice, (*_TEXTS, "quantile", "missing", "cap", "covariates")):
            yield key, "cannot be used with `function`"
        if problem := find_function_problem(choice.function):
            yield "function", problem
        return
    parts = len(_list_set_keys(choice, ("numerator", "denominator")))
    # A metric since exposure needs no value: then it is whether a unit has a row.
    has_value = choice.value is not None or (choice.is_since_exposure and not parts)
    if has_value == bool(parts) or parts == 1:
        yield ("give either `value`, or both `numerator` and `denominator`",)
    if choice.quantile is not None and choice.value is None:
        yield "quantile", "needs `value`, an expression of the impression"
    for key in _TEXTS:
        yield from check_expression(getattr(choice, key), key)
    if choice.missing is not None and choice.is_since_exposure and choice.combined_by in _COUNTS:
        yield "missing", 'is of numbers: of per_unit = "sum", "max" or "first"'
    if choice.missing == "zero" and choice.quantile is not None:
        yield "missing", 'a quantile ranks values only: choose "drop" or "refuse"'


def _check_since_exposure(choice: MetricChoice, experiment: Experiment) -> Mistakes:
    """Check a metric since exposure: its logs, keys and values."""
    if experiment.is_unit_table or experiment.unit == ROW_UNIT:
        lacks = "a table of units" if experiment.is_unit_table else 'unit = "row"'
        for key in _list_set_keys(choice, _EVENT_KEYS):
            yield key, f"needs a log of rows of units; this is {lacks}"
        return
    yield from _check_rows(choice, experiment)
    excluded = {
        "funnel": ("log", "where", "per_unit", "retention", *_TEXTS),
        "retention": ("per_unit", "within", *_TEXTS),
        "quantile": _EVENT_KEYS,
        "function": _EVENT_KEYS,
    }
    for key in _list_set_keys(choice, excluded):
        for other_key in _list_set_keys(choice, excluded[key]):
            yield other_key, f"cannot be used with `{key}`"
    # Rows of a table of units have no time to compare with the exposure.
    for key in _list_set_keys(choice, ("within", "retention")) if choice.log == UNITS else ():
        yield key, _NO_TIMES
    combine = choice.combined_by
    if choice.denominator is not None and combine != "sum":
        yield "per_unit", 'with `numerator` and `denominator` only "sum" has a meaning'
    if choice.value is None and choice.denominator is None and combine != "any":
        yield "per_unit", f'per_unit = "{combine}" needs `value`, the expression of a row'
    of_impressions = choice.rows.log == IMPRESSIONS
    for key in _list_set_keys(choice, (*_TEXTS, "where")) if of_impressions else ():
        text = getattr(choice, key)
        # Each variant may have its own column of scores: a row alone does not say which.
        if find_expression_problem(text) is None and "score" in list_columns(text):
            yield key, "reads `score`, which has no value per unit since exposure"
    if choice.within is not None and not 0 < span_ms(choice.within) <= MAX_WINDOW_DAYS * _DAY_MS:
        yield "within", f"{choice.within!r} is not between 0 and {MAX_WINDOW_DAYS} days"


def _check_rows(choice: MetricChoice, experiment: Experiment) -> Mistakes:
    """Check the logs and conditions of a metric's rows, and its funnel steps."""
    steps = choice.funnel or []
    there = [IMPRESSIONS, CLICKS, *experiment.logs.events]
    there += [] if experiment.unit_table is None else [UNITS]
    rows: list[tuple[Path, Step]] = [(("funnel", k), step) for k, step in enumerate(steps)]
    for where, step in [*rows, ((), choice.rows)]:
        if step.log not in there:
            what = f"no log of rows of units is called {step.log!r}{suggest_name(step.log, there)}"
            yield *where, "log", f"{what}; [logs.events.{step.log}] would be one"
        yield from check_expression(step.where, *where, "where")
        if where and step.log == UNITS:
            yield *where, _NO_TIMES
    for k, (step, following) in enumerate(pairwise(steps), start=1):
        if step == following:
            yield "funnel", k, "is the same as the step before it: one row would be both"


def _check_function(text: str, metrics: _Metrics) -> Mistakes:
    """Check that a function names means and ratios that exist."""
    # A quantile or a function has no sums to recompute a function from.
    means = [name for name, metric in metrics.items() if _is_mean(metric)]
    for name in list_metric_names(text) if find_function_problem(text) is None else ():
        if name not in metrics:
            yield "function", f"{name!r} is not a metric{suggest_name(name, means)}"
        elif name not in means:
            yield "function", f"{name!r} is not a mean or a ratio"


def _check_covariates(
    choice: MetricChoice,
    definition: Metric | MetricChoice,
    experiment: Experiment,
    metrics: _Metrics,
) -> Mistakes:
    """Check that covariates are used, and are sums over impressions."""
    if experiment.inference.adjust not in ("cuped", "regression"):
        yield "covariates", 'needs [inference] adjust = "cuped" or "regression"'
    if experiment.is_unit_table:
        # They are columns of the table.
        return
    if not _is_sum(definition):
        yield "covariates", f"{choice.name} is not made of sums over impressions"
    for name in choice.covariates or ():
        if name not in metrics:
            yield "covariates", f"no metric is called {name!r}{suggest_name(name, metrics)}"
        elif not _is_sum(metrics[name]):
            yield "covariates", f"{name!r} is not made of sums over impressions"


def _is_mean(metric: Metric | MetricChoice) -> bool:
    if isinstance(metric, Metric):
        return metric.is_mean_or_ratio
    return metric.function is None and metric.quantile is None


def _is_sum(metric: Metric | MetricChoice) -> bool:
    if isinstance(metric, Metric):
        return metric.source is UNIT_DAY
    return _is_mean(metric) and not metric.is_since_exposure


def check_inference(experiment: Experiment) -> Mistakes:
    """Check the entries of `[inference]` against each other."""
    yield from _check_adjust(experiment)
    yield from _check_looks(experiment)
    inference = experiment.inference
    is_fixed = inference.looks == "fixed"
    if inference.family == "dunnett" and not is_fixed:
        yield "family", '"dunnett" is for looks = "fixed"; choose "holm"'
    # Functions are always judged by the jackknife.
    resamples = inference.resample is not None or any(c.function for c in experiment.metrics)
    if resamples and inference.relative == "log_delta":
        yield "relative", 'with resampling, choose "fieller" or "delta"'
    if inference.resample is not None and inference.adjust != "none":
        yield "resample", f'cannot be used with adjust = "{inference.adjust}"'
    if inference.resample == "permutation" and not is_fixed:
        yield "resample", '"permutation" is for looks = "fixed"'


def _check_adjust(experiment: Experiment) -> Mistakes:
    adjust, by = experiment.inference.adjust, experiment.inference.stratify_by
    units, segments = experiment.logs.units, experiment.segment_names
    has_columns = units is not None and bool(units.covariates)
    if adjust in ("cuped", "regression") and not has_columns:
        has_covariates = any(choice.covariates for choice in experiment.metrics)
        if experiment.is_unit_table and not has_covariates:
            needs = "columns that were measured before the experiment"
            yield "adjust", f'"{adjust}" needs [logs.units] covariates, {needs}'
        elif not experiment.is_unit_table and experiment.pre_period is None:
            yield "adjust", f'"{adjust}" needs a [pre_period], whose values are the covariates'
    if adjust != "none" and experiment.inference.relative == "log_delta":
        yield "relative", f'with adjust = "{adjust}", choose "fieller" or "delta"'
    if adjust == "stratify" and by is None:
        yield "stratify_by", 'adjust = "stratify" needs the name of one of [segments]'
    if by is not None and adjust != "stratify":
        yield "stratify_by", 'is used only with adjust = "stratify"'
    if by is not None and by not in segments:
        yield "stratify_by", f"no segment is called {by!r}{suggest_name(by, segments)}"


def _check_looks(experiment: Experiment) -> Mistakes:
    inference, period = experiment.inference, experiment.period
    looks, units = inference.planned_looks, inference.planned_units
    planned = 'looks = "group_sequential"'
    is_planned = inference.looks == "group_sequential"
    if units is not None and inference.looks == "fixed":
        yield "planned_units", 'is used only with looks = "always_valid" or "group_sequential"'
    if is_planned and looks is None:
        yield "planned_looks", f"{planned} needs the planned looks: dates, or shares such as 0.5"
    if looks is not None and not is_planned:
        yield "planned_looks", f"is used only with {planned}"
    if "spending" in inference.model_fields_set and not is_planned:
        yield "spending", f"is used only with {planned}"
    if is_planned and period is None and units is None:
        needs = "needs a [period] or planned_units, to know how much is planned"
        yield "looks", f"{planned} {needs}"
    dates = [convert_to_datetime(look) for look in looks or () if not isinstance(look, float)]
    if dates and len(dates) < len(looks or ()):
        yield "planned_looks", "mixes dates and shares; keep one kind"
    elif dates and units is not None:
        yield "planned_looks", "dates are looks of a [period]; with planned_units, use shares"
    elif dates and period is None:
        yield "planned_looks", "dates need a [period]"
    elif period is not None:
        outside = "must be after the period's start and not after its end"
        for date in dates:
            if not period.bounds[0] < date <= period.bounds[1]:
                yield "planned_looks", f"{date} {outside}"
