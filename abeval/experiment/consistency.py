"""Find entries of an experiment file that contradict each other: one rule for each section."""

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from abeval.bounds import MAX_METRICS, MAX_VARIANTS, MAX_WINDOW_DAYS
from abeval.errors import ExperimentError
from abeval.experiment.metrics import CLICKS, IMPRESSIONS, UNITS, combined_by, known_metrics
from abeval.experiment.model import Experiment
from abeval.experiment.problems import Path, Problem, suggestion
from abeval.experiment.sections import MetricChoice, ScheduledSplit, moment
from abeval.experiment.sources import (
    CANONICAL_COLUMNS,
    OWN_TABLE,
    ROW_UNIT,
    LogSource,
    canonical_columns,
)
from abeval.metrics.definition import UNIT_DAY, Metric, span_ms
from abeval.metrics.row_text import columns_of, expression_problem, function_problem, names_of

Found = Iterator[tuple[str | int, ...]]
"""Keys below a section, and at the end what is wrong there."""

_NO_TIMES = "a table of units has no times"
_NO_UNIT = 'needs a unit to join by; unit = "row" has none'
_MISSING = "belongs to [logs.impressions], which is missing"
_DAY_MS = 86_400_000


def inconsistencies(experiment: Experiment) -> list[Problem]:
    """List every contradiction between entries, each with its path."""
    known = known_metrics(experiment)
    choices = enumerate(experiment.metrics)
    rules: list[tuple[Path, Found]] = [
        ((), _experiment(experiment)),
        (("variants",), _variants(experiment)),
        ((), _times(experiment)),
        (("assignment",), _assignment(experiment)),
        (("logs",), _logs(experiment)),
        (("tables",), _tables(experiment)),
        (("cleaning",), _cleaning(experiment)),
        *((("metrics", i), _metric(choice, experiment, known)) for i, choice in choices),
        (("segments",), _segments(experiment)),
        (("cuts",), _cuts(experiment)),
        (("inference",), _inference(experiment)),
    ]
    return [
        Problem((*path, *keys), str(message)) for path, found in rules for *keys, message in found
    ]


def _expression(text: str | None, *where: str | int) -> Found:
    if text is not None and (problem := expression_problem(text)):
        yield *where, problem


def _zone(name: str | None, where: str) -> Found:
    if name is None:
        return
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        yield where, f"unknown time zone {name!r}{suggestion(name, available_timezones())}"


def _experiment(experiment: Experiment) -> Found:
    control, variants = experiment.control, experiment.variants
    if control not in variants:
        yield "control", f"no variant is called {control!r}{suggestion(control, variants)}"
    for name, limit in (("variants", MAX_VARIANTS), ("metrics", MAX_METRICS)):
        if (count := len(getattr(experiment, name))) > limit:
            yield name, f"{count:,} {name}, but at most {limit} are analysed at once"
    names = [choice.name for choice in experiment.metrics]
    for i, name in enumerate(names):
        if name in names[:i]:
            yield "metrics", i, "name", f"{name!r} is listed twice"
    if experiment.of_units and not names:
        needs = 'needs [[metrics]], such as name = "revenue", a column'
        yield "metrics", f"a table of units {needs}"
    yield from _expression(experiment.agreement.treated, "agreement", "treated")


def _times(experiment: Experiment) -> Found:
    pre, period = experiment.pre_period, experiment.period
    yield from _zone(experiment.timezone, "timezone")
    if pre is not None and period is None:
        yield "pre_period", "needs a [period] that comes after it"
    elif pre is not None and period is not None and pre.bounds[1] > period.bounds[0]:
        yield "pre_period", "end", f"{pre.end} is after period.start {period.start}"
    for entry, span in (("period", period), ("pre_period", pre)):
        if experiment.of_units and span is not None:
            yield entry, "a table of units has no times: remove it"


def _variants(experiment: Experiment) -> Found:
    variants, control = experiment.variants, experiment.control
    for name, variant in variants.items():
        if variant.model is not None and variant.model not in experiment.models:
            hint = suggestion(variant.model, experiment.models)
            yield name, "model", f"unknown model {variant.model!r}{hint}"
    if len(variants) < 2:
        yield ("an experiment compares at least two variants",)
    elif not any(variants[name].weight > 0 for name in experiment.treatments):
        yield ("every variant but control has weight 0",)
    if control in variants and variants[control].weight == 0:
        yield control, "weight", "control has weight 0, so there is nothing to compare with"
    plain = (name for name, variant in variants.items() if variant.of is None)
    seen = dict.fromkeys(plain, "a variant of its own")
    for name, variant in variants.items():
        for arm in variant.of or ():
            if arm in seen:
                yield name, "of", f"{arm!r} is {seen[arm]} already; an arm has one variant"
            seen[arm] = f"in {name!r}"


def _assignment(experiment: Experiment) -> Found:
    before = None
    for i, split in enumerate(experiment.schedule):
        for found in _split(split, before, experiment):
            yield "splits", i, *found
        before = split
    own = experiment.assignment
    if own is None:
        return
    plain = own.model_copy(update={"scheme": None, "order": None})
    if own.scheme is not None and not plain.is_plain:
        needs = "are for a `salt`; a scheme has settings of its own"
        yield "scheme", f"`traffic`, `layer` and `holdout` {needs}"
    if own.order is not None and sorted(own.order) != sorted(experiment.variants):
        yield "order", "must name each variant once"
        return
    try:
        _ = experiment.assignment_rule
    except ExperimentError as error:
        yield (str(error).replace("\n", ": "),)


def _split(split: ScheduledSplit, before: ScheduledSplit | None, experiment: Experiment) -> Found:
    """Check that splits name every variant, in the order of time, and start in the period."""
    begins, period, variants = moment(split.start), experiment.period, experiment.variants
    if before is not None and begins <= moment(before.start):
        yield "from", f"{split.start} is not after the split before it"
    if period is not None and begins >= period.bounds[1]:
        yield "from", f"{split.start} is not before period.end {period.end}"
    for name in split.weights:
        if name not in variants:
            yield "weights", name, f"no variant is called {name!r}{suggestion(name, variants)}"
    for name in variants:
        if name not in split.weights:
            yield "weights", f"{name!r} has no weight; 0 means that no unit enters it"
    if not any(split.weights.values()):
        yield "weights", "all are 0"


def _logs(experiment: Experiment) -> Found:
    logs, of_row = experiment.logs, experiment.unit == ROW_UNIT
    for name, log in logs.named.items():
        for found in _log(name, log, experiment.tables):
            yield *name.split("."), *found
    for name in logs.events:
        if name in CANONICAL_COLUMNS or name == OWN_TABLE or name in experiment.tables:
            yield "events", name, "is the name of another log or table; choose another"
        if of_row or experiment.of_units:
            yield "events", name, _NO_UNIT if of_row else _MISSING
    yield from _unit_table(experiment)
    if logs.clicks is not None:
        join = logs.clicks.join or []
        if logs.impressions and "click" in logs.impressions.columns:
            what = "a click is a column of the impression or a row of logs.clicks, not both"
            yield "impressions", "columns", "click", what
        if "unit_id" in join and of_row:
            yield "clicks", "join", 'names unit_id, and unit = "row" has none'
        if "unit_id" in join and len(join) > 2:
            yield "clicks", "join", "with unit_id, at most 2 columns, because time is one more"
    if logs.exposures is not None and of_row:
        yield "exposures", _NO_UNIT


def _log(name: str, log: LogSource, tables: Collection[str]) -> Found:
    known = canonical_columns(name)
    for column in log.columns:
        if column not in known:
            yield "columns", column, f"unknown column `{column}`{suggestion(column, known)}"
    if log.database is not None and log.table is None:
        yield "database", "needs `table`, the table to read from the database"
    if log.path is not None and log.table is not None:
        yield ("has both `path` and `table`; keep one",)
    yield from _zone(log.ts_zone, "ts_zone")
    if log.time_unit is not None and log.ts_format is not None:
        yield "ts_format", "has no meaning beside `time_unit`; keep one"
    yield from _expression(log.where, "where")
    if log.query is not None and (problem := query_problem(log.query, {OWN_TABLE, *tables})):
        yield "query", problem


def _unit_table(experiment: Experiment) -> Found:
    """Check a table of units: beside impressions it is joined, without them nothing else is."""
    logs, units = experiment.logs, experiment.logs.units
    if experiment.of_units:
        for log in ("clicks", "items", "exposures", "scores", "truth", "training"):
            if getattr(logs, log) is not None:
                yield log, _MISSING
        if units is not None and units.segments:
            yield "units", "segments", "without [logs.impressions], name them under [segments]"
    elif units is not None:
        if experiment.unit == ROW_UNIT:
            yield "units", _NO_UNIT
        for name, text in units.segments.items():
            if name in experiment.segments:
                what = "is the name of one of [segments]; choose another"
                yield "units", "segments", name, what
            yield from _expression(text, "units", "segments", name)
        for i, covariate in enumerate(units.covariates):
            text = covariate if isinstance(covariate, str) else covariate.value
            yield from _expression(text, "units", "covariates", i)


_ROWS = ("UNNEST", "RANGE", "GENERATE_SERIES")
"""Functions that make rows of values, and read nothing."""


def query_problem(text: str, tables: Collection[str]) -> str | None:
    """Say why a text is not one SELECT over these tables; None where it is one.

    Example:
        >>> query_problem("select * from log", ["log"])
        >>> query_problem("select * from 'other.parquet'", ["log"])
        "reads 'other.parquet'; it may read: log"
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        trees = [tree for tree in sqlglot.parse(text, dialect="duckdb") if tree is not None]
    except (SqlglotError, RecursionError) as error:
        return f"is not SQL: {str(error).splitlines()[0]}"
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        return "is not one SELECT"
    allowed = f"it may read: {', '.join(sorted(tables))}"
    known = {name.lower() for name in tables}
    known |= {cte.alias.lower() for cte in trees[0].find_all(exp.CTE)}
    for table in trees[0].find_all(exp.Table):
        if isinstance(table.this, exp.Func):
            if not {table.this.sql_name().upper(), table.name.upper()} & {*_ROWS}:
                return f"calls {table.this.sql('duckdb')!r} in `from`; {allowed}"
        elif table.args.get("db") or table.name.lower() not in known:
            return f"reads {table.name!r}; {allowed}"
    return None


def _tables(experiment: Experiment) -> Found:
    for name, table in experiment.tables.items():
        if name.lower() == OWN_TABLE or name in CANONICAL_COLUMNS:
            yield name, "is the name of a log; choose another"
        for key in ("where", "query", "columns", "time_unit", "ts_format", "ts_zone"):
            if key in table.model_fields_set:
                yield name, key, "belongs to a log; write it into the query"
    logs = experiment.logs.named.values()
    if experiment.tables and not any(log.query is not None for log in logs):
        yield ("are read by the `query` of a log, but no log has one",)


def _cleaning(experiment: Experiment) -> Found:
    cleaning = experiment.cleaning
    if cleaning.duplicate_key is not None and cleaning.duplicates != "drop":
        yield "duplicate_key", 'is used only with duplicates = "drop"'
    is_known = experiment.assigns or experiment.logs.exposures
    if cleaning.crossover == "as_assigned" and not is_known:
        needs = "needs [assignment] salt or an exposures log, to know the assignment"
        yield "crossover", f'"as_assigned" {needs}'


def _segments(experiment: Experiment) -> Found:
    for name, text in experiment.segment_values.items():
        yield from _expression(text, name)
    if experiment.pre_period is None and not experiment.of_units:
        for name in experiment.known_from("before"):
            what = '"before" needs a [pre_period], in which the unit had its value'
            yield name, "known", what
    if experiment.logs.exposures is None:
        for name in experiment.known_from("exposure"):
            yield name, "known", '"exposure" needs [logs.exposures], whose rows have the value'


def _cuts(experiment: Experiment) -> Found:
    if experiment.cuts and experiment.of_units:
        yield ("a table of units has one row a unit: name its columns under [segments]",)
        return
    for name, text in experiment.cuts.items():
        if name in experiment.segment_names:
            yield name, "is the name of a segment; choose another"
        yield from _expression(text, name)


def _metric(choice: MetricChoice, experiment: Experiment, known: Mapping[str, Metric]) -> Found:
    builtin, inference = known.get(choice.name), experiment.inference
    yield from _definition(choice, known)
    if choice.of_events:
        yield from _since_exposure(choice, experiment)
    if choice.function is not None:
        yield from _function(choice, experiment, known)
    role = choice.role or ("goal" if builtin is None else builtin.role)
    if role == "guardrail" and choice.margin is None:
        what = "the largest harm that is allowed: 0.02 is 2 % of control"
        yield "margin", f"a guardrail needs a margin, {what}"
    if choice.cap is not None:
        if choice.quantile is not None or (builtin is not None and not builtin.source.capped):
            yield "cap", f"{choice.name} has no totals per unit to cap"
        units = experiment.logs.units
        if inference.adjust in ("cuped", "regression") and units is not None and units.covariates:
            yield "cap", "cannot be used with the covariates of [logs.units]"
        if inference.adjust == "stratify":
            what = 'can be used with adjust = "cuped" or "regression", not with "stratify"'
            yield "cap", what
        if inference.resample is not None:
            yield "cap", "cannot be used with [inference] resample"
    if choice.covariates is not None:
        yield from _covariates(choice, experiment, known)
    if choice.weight is not None and inference.family != "weighted":
        yield "weight", 'is used only with [inference] family = "weighted"'
    if choice.weight is not None and choice.role not in (None, "goal"):
        yield "weight", "is only for goals: it is the goal's share of alpha"


_TEXTS = ("value", "numerator", "denominator")
_OF_EVENTS = ("log", "per_unit", "where", "within", "retention", "funnel")


def _used(choice: MetricChoice, keys: Collection[str]) -> list[str]:
    return [key for key in keys if getattr(choice, key) is not None]


def _definition(choice: MetricChoice, builtin: Mapping[str, Metric]) -> Found:
    """Check what a metric is: a built-in one, or the file's own by one kind of expression."""
    if not choice.is_own:
        if choice.quantile is not None:
            yield "quantile", "needs `value`, the expression whose quantile is computed"
        if choice.name not in builtin:
            hint = suggestion(choice.name, builtin) or "; `abeval metrics` lists the built-in ones"
            own = "or give `value`, or `numerator` and `denominator`"
            yield "name", f"no built-in metric is called {choice.name!r}{hint} ({own})"
        return
    if choice.name in builtin:
        yield "name", f"{choice.name!r} is a built-in metric; choose another"
    if choice.function is not None:
        for key in _used(choice, (*_TEXTS, "quantile", "cap", "covariates")):
            yield key, "cannot be used with `function`"
        if problem := function_problem(choice.function):
            yield "function", problem
        return
    parts = len(_used(choice, ("numerator", "denominator")))
    has_value = choice.value is not None or (choice.of_events and not parts)
    if has_value == bool(parts) or parts == 1:
        yield ("give either `value`, or both `numerator` and `denominator`",)
    if choice.quantile is not None and choice.value is None:
        yield "quantile", "needs `value`, an expression of the impression"
    for key in _TEXTS:
        yield from _expression(getattr(choice, key), key)


def _since_exposure(choice: MetricChoice, experiment: Experiment) -> Found:
    """Check a metric of units since their exposure: its logs, keys and values."""
    if experiment.of_units or experiment.unit == ROW_UNIT:
        lacks = "a table of units" if experiment.of_units else 'unit = "row"'
        for key in _used(choice, _OF_EVENTS):
            yield key, f"needs a log of rows of units; this is {lacks}"
        return
    yield from _rows(choice, experiment)
    excluded = {
        "funnel": ("log", "where", "per_unit", "retention", *_TEXTS),
        "retention": ("per_unit", "within", *_TEXTS),
        "quantile": _OF_EVENTS,
        "function": _OF_EVENTS,
    }
    for key in _used(choice, excluded):
        for other in _used(choice, excluded[key]):
            yield other, f"cannot be used with `{key}`"
    for key in _used(choice, ("within", "retention")) if choice.log == UNITS else ():
        yield key, _NO_TIMES
    combine = combined_by(choice)
    if choice.denominator is not None and combine != "sum":
        yield "per_unit", 'with `numerator` and `denominator` only "sum" has a meaning'
    if choice.value is None and choice.denominator is None and combine != "any":
        yield "per_unit", f'per_unit = "{combine}" needs `value`, the expression of a row'
    of_impressions = (choice.log or IMPRESSIONS) == IMPRESSIONS
    for key in _used(choice, (*_TEXTS, "where")) if of_impressions else ():
        text = getattr(choice, key)
        if expression_problem(text) is None and "score" in columns_of(text):
            yield key, "reads `score`, which has no value per unit since exposure"
    if choice.within is not None and not 0 < span_ms(choice.within) <= MAX_WINDOW_DAYS * _DAY_MS:
        yield "within", f"{choice.within!r} is not between 0 and {MAX_WINDOW_DAYS} days"


def _rows(choice: MetricChoice, experiment: Experiment) -> Found:
    """Check that each log is there, each condition an expression, and each step another one."""
    steps = [(step.log, step.where) for step in choice.funnel or ()]
    known = [IMPRESSIONS, CLICKS, *experiment.logs.events]
    known += [] if experiment.unit_table is None else [UNITS]
    rows = [(("funnel", k), *step) for k, step in enumerate(steps)]
    for where, log, condition in [*rows, ((), choice.log or IMPRESSIONS, choice.where)]:
        if log not in known:
            what = f"no log of rows of units is called {log!r}{suggestion(log, known)}"
            yield *where, "log", f"{what}; [logs.events.{log}] would be one"
        yield from _expression(condition, *where, "where")
        if where and log == UNITS:
            yield *where, _NO_TIMES
    for k, (step, following) in enumerate(pairwise(steps), start=1):
        if step == following:
            yield "funnel", k, "is the same as the step before it: one row would be both"


def _function(choice: MetricChoice, experiment: Experiment, builtin: Mapping[str, Metric]) -> Found:
    """Check that a function names means and ratios, built-in ones or the file's own."""
    if choice.function is None or function_problem(choice.function) is not None:
        return
    own = [c for c in experiment.metrics if c.is_own]
    usable = [name for name, metric in builtin.items() if metric.is_mean_or_ratio]
    usable += [c.name for c in own if c.function is None and c.quantile is None]
    for name in names_of(choice.function):
        if name in builtin or any(c.name == name for c in own):
            if name not in usable:
                yield "function", f"{name!r} is not a mean or a ratio"
        else:
            yield "function", f"{name!r} is not a metric{suggestion(name, dict.fromkeys(usable))}"


def _covariates(
    choice: MetricChoice, experiment: Experiment, builtin: Mapping[str, Metric]
) -> Found:
    """Check that covariates are used, and, as metrics, are sums over impressions."""
    if experiment.inference.adjust not in ("cuped", "regression"):
        yield "covariates", 'needs [inference] adjust = "cuped" or "regression"'
    if choice.cap is not None:
        yield "covariates", "cannot be used with `cap`"
    if experiment.of_units:
        # They are columns of the table.
        return
    own = [c for c in experiment.metrics if c.is_own]
    sums = {name for name, metric in builtin.items() if metric.source is UNIT_DAY}
    sums |= {c.name for c in own if _is_sum(c)}
    named = None if choice.is_own else builtin.get(choice.name)
    if not (_is_sum(choice) if named is None else named.source is UNIT_DAY):
        yield "covariates", f"{choice.name} is not made of sums over impressions"
    known = [*builtin, *dict.fromkeys(c.name for c in own)]
    for name in choice.covariates or ():
        if name not in known:
            yield "covariates", f"no metric is called {name!r}{suggestion(name, known)}"
        elif name not in sums:
            yield "covariates", f"{name!r} is not made of sums over impressions"


def _is_sum(choice: MetricChoice) -> bool:
    return choice.quantile is None and choice.function is None and not choice.of_events


def _inference(experiment: Experiment) -> Found:
    yield from _adjust(experiment)
    yield from _looks(experiment)
    inference = experiment.inference
    is_fixed = inference.looks == "fixed"
    if inference.family == "dunnett" and not is_fixed:
        yield "family", '"dunnett" is for looks = "fixed"; choose "holm"'
    resamples = inference.resample is not None or any(c.function for c in experiment.metrics)
    if resamples and inference.relative == "log_delta":
        yield "relative", 'with resampling, choose "fieller" or "delta"'
    if inference.resample is not None and inference.adjust != "none":
        yield "resample", f'cannot be used with adjust = "{inference.adjust}"'
    if inference.resample == "permutation" and not is_fixed:
        yield "resample", '"permutation" is for looks = "fixed"'


def _adjust(experiment: Experiment) -> Found:
    adjust, by = experiment.inference.adjust, experiment.inference.stratify_by
    units, segments = experiment.logs.units, experiment.segment_names
    has_columns = units is not None and bool(units.covariates)
    if adjust in ("cuped", "regression") and not has_columns:
        named = any(choice.covariates for choice in experiment.metrics)
        if experiment.of_units and not named:
            needs = (
                "needs [logs.units] covariates, columns that were measured before the experiment"
            )
            yield "adjust", f'"{adjust}" {needs}'
        elif not experiment.of_units and experiment.pre_period is None:
            yield "adjust", f'"{adjust}" needs a [pre_period], whose values are the covariates'
    if adjust != "none" and experiment.inference.relative == "log_delta":
        yield "relative", f'with adjust = "{adjust}", choose "fieller" or "delta"'
    if adjust == "stratify" and by is None:
        yield "stratify_by", 'adjust = "stratify" needs the name of one of [segments]'
    if by is not None and adjust != "stratify":
        yield "stratify_by", 'is used only with adjust = "stratify"'
    if by is not None and by not in segments:
        yield "stratify_by", f"no segment is called {by!r}{suggestion(by, segments)}"


def _looks(experiment: Experiment) -> Found:
    inference, period = experiment.inference, experiment.period
    looks, units = inference.planned_looks, inference.planned_units
    is_planned = inference.looks == "group_sequential"
    only = 'is used only with looks = "group_sequential"'
    if units is not None and inference.looks == "fixed":
        yield "planned_units", 'is used only with looks = "always_valid" or "group_sequential"'
    if is_planned and looks is None:
        needs = "needs the planned looks: dates, or shares such as 0.5"
        yield "planned_looks", f'looks = "group_sequential" {needs}'
    if looks is not None and not is_planned:
        yield "planned_looks", only
    if "spending" in inference.model_fields_set and not is_planned:
        yield "spending", only
    if is_planned and period is None and units is None:
        needs = "needs a [period] or planned_units, to know how much is planned"
        yield "looks", f'looks = "group_sequential" {needs}'
    dates = [moment(look) for look in looks or () if not isinstance(look, float)]
    if dates and len(dates) < len(looks or ()):
        yield "planned_looks", "mixes dates and shares; keep one kind"
    elif dates and units is not None:
        what = "dates are looks of a [period]; with planned_units, use shares"
        yield "planned_looks", what
    elif dates and period is None:
        yield "planned_looks", "dates need a [period]"
    elif period is not None:
        for date in dates:
            if not period.bounds[0] < date <= period.bounds[1]:
                what = "must be after the period's start and not after its end"
                yield "planned_looks", f"{date} {what}"
