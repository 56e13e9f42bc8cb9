"""Entries of an experiment file that contradict each other.

`load.py` hands it the experiment that pydantic accepts, and reports what comes back with all other
mistakes.
"""

from collections.abc import Iterator
from zoneinfo import ZoneInfo, available_timezones

from abeval.bounds import MAX_METRICS, MAX_VARIANTS
from abeval.errors import ExperimentError
from abeval.experiment.consistency import shape_problems
from abeval.experiment.cut_rules import cut_problems
from abeval.experiment.metric_rules import event_problems, inference_problems, outcome_log_problems
from abeval.experiment.metrics import known_metrics
from abeval.experiment.model import Experiment
from abeval.experiment.problems import Problem, suggestion
from abeval.experiment.sections import MetricChoice, moment
from abeval.experiment.segment_rules import segment_problems
from abeval.experiment.sources import (
    CANONICAL_COLUMNS,
    OWN_TABLE,
    ROW_UNIT,
    LogSource,
    UnitLog,
    canonical_columns,
)
from abeval.metrics.row_text import expression_problem, function_problem


def inconsistencies(experiment: Experiment) -> list[Problem]:
    """Every contradiction between entries, each with its path."""
    return [
        *_names(experiment),
        *_variants(experiment),
        *_times(experiment),
        *_splits(experiment),
        *_logs(experiment),
        *_tables(experiment),
        *_assignment(experiment),
        *_cleaning(experiment),
        *_metrics(experiment),
        *segment_problems(experiment),
        *cut_problems(experiment),
        *inference_problems(experiment, known_metrics(experiment)),
    ]


def _names(experiment: Experiment) -> Iterator[Problem]:
    if experiment.control not in experiment.variants:
        hint = suggestion(experiment.control, experiment.variants)
        yield Problem(("control",), f"no variant is called {experiment.control!r}{hint}")
    for name, variant in experiment.variants.items():
        if variant.model is not None and variant.model not in experiment.models:
            hint = suggestion(variant.model, experiment.models)
            yield Problem(("variants", name, "model"), f"unknown model {variant.model!r}{hint}")


def _variants(experiment: Experiment) -> Iterator[Problem]:
    for name, limit in (("variants", MAX_VARIANTS), ("metrics", MAX_METRICS)):
        if (count := len(getattr(experiment, name))) > limit:
            yield Problem((name,), f"{count:,} {name}, but at most {limit} are analysed at once")
    if len(experiment.variants) < 2:
        yield Problem(("variants",), "an experiment compares at least two variants")
    elif not any(experiment.variants[name].weight > 0 for name in experiment.treatments):
        yield Problem(("variants",), "every variant but control has weight 0")
    if (control := experiment.variants.get(experiment.control)) and control.weight == 0:
        where = ("variants", experiment.control, "weight")
        yield Problem(where, "control has weight 0, so there is nothing to compare with")
    yield from _arms(experiment)


def _arms(experiment: Experiment) -> Iterator[Problem]:
    """Arms of the log that would belong to two variants."""
    plain = {name for name, variant in experiment.variants.items() if variant.of is None}
    seen: dict[str, str] = dict.fromkeys(plain, "a variant of its own")
    for name, variant in experiment.variants.items():
        for arm in variant.of or ():
            if arm in seen:
                where = ("variants", name, "of")
                yield Problem(where, f"{arm!r} is {seen[arm]} already; an arm has one variant")
            seen[arm] = f"in {name!r}"


def _times(experiment: Experiment) -> Iterator[Problem]:
    try:
        ZoneInfo(experiment.timezone)
    except (KeyError, ValueError, OSError):
        hint = suggestion(experiment.timezone, available_timezones())
        yield Problem(("timezone",), f"unknown time zone {experiment.timezone!r}{hint}")
    pre, period = experiment.pre_period, experiment.period
    if pre is not None and period is None:
        yield Problem(("pre_period",), "needs a [period] that comes after it")
    elif pre is not None and period is not None and pre.bounds[1] > period.bounds[0]:
        yield Problem(("pre_period", "end"), f"{pre.end} is after period.start {period.start}")


def _splits(experiment: Experiment) -> Iterator[Problem]:
    """Splits name every variant once, in the order of time, and end before the period does."""
    before = None
    for i, split in enumerate(experiment.schedule):
        where, begins = ("assignment", "splits", i), moment(split.start)
        if before is not None and begins <= before:
            yield Problem((*where, "from"), f"{split.start} is not after the split before it")
        if experiment.period is not None and begins >= experiment.period.bounds[1]:
            message = f"{split.start} is not before period.end {experiment.period.end}"
            yield Problem((*where, "from"), message)
        before = begins
        for name in split.weights:
            if name not in experiment.variants:
                hint = suggestion(name, experiment.variants)
                yield Problem((*where, "weights", name), f"no variant is called {name!r}{hint}")
        for name in experiment.variants:
            if name not in split.weights:
                message = f"{name!r} has no weight; 0 means that no unit enters it"
                yield Problem((*where, "weights"), message)
        if not any(split.weights.values()):
            yield Problem((*where, "weights"), "all are 0")


def _logs(experiment: Experiment) -> Iterator[Problem]:
    logs = experiment.logs
    for name, log in logs.named.items():
        yield from _log(name, log)
        yield from shape_problems(name, log, experiment.tables)
    yield from outcome_log_problems(experiment)
    treated = experiment.agreement.treated
    if treated is not None and (problem := expression_problem(treated)):
        yield Problem(("agreement", "treated"), problem)
    if experiment.of_units:
        yield from _without_impressions(experiment)
    elif logs.units is not None:
        yield from _beside_impressions(experiment, logs.units)
    if logs.clicks is not None and logs.impressions and "click" in logs.impressions.columns:
        where = ("logs", "impressions", "columns", "click")
        yield Problem(
            where, "a click is a column of the impression or a row of logs.clicks, not both"
        )
    if logs.clicks is not None and "unit_id" in (logs.clicks.join or []):
        yield from _join_by_unit(experiment.unit, len(logs.clicks.join or []))
    if logs.exposures is not None and experiment.unit == ROW_UNIT:
        yield Problem(("logs", "exposures"), 'needs a unit to join by; unit = "row" has none')


def _join_by_unit(unit: str, columns: int) -> Iterator[Problem]:
    """Clicks that belong to the last impression of their unit: the time is one of three keys."""
    where = ("logs", "clicks", "join")
    if unit == ROW_UNIT:
        yield Problem(where, 'names unit_id, and unit = "row" has none')
    if columns > _BY_UNIT:
        yield Problem(where, f"with unit_id, at most {_BY_UNIT} columns, because time is one more")


_BY_UNIT = 2


def _beside_impressions(experiment: Experiment, units: UnitLog) -> Iterator[Problem]:
    """A table of units is joined by unit, and its segments have names of their own."""
    if experiment.unit == ROW_UNIT:
        yield Problem(("logs", "units"), 'needs a unit to join by; unit = "row" has none')
    for name, text in units.segments.items():
        where = ("logs", "units", "segments", name)
        if name in experiment.segments:
            yield Problem(where, "is the name of one of [segments]; choose another")
        if problem := expression_problem(text):
            yield Problem(where, problem)
    for i, covariate in enumerate(units.covariates):
        text = covariate if isinstance(covariate, str) else covariate.value
        if problem := expression_problem(text):
            yield Problem(("logs", "units", "covariates", i), problem)


def _without_impressions(experiment: Experiment) -> Iterator[Problem]:
    """What a table of one row a unit does not have: times, and rows that others belong to."""
    for entry in ("period", "pre_period"):
        if getattr(experiment, entry) is not None:
            yield Problem((entry,), "a table of units has no times: remove it")
    for log in ("clicks", "items", "exposures", "scores", "truth", "training"):
        if getattr(experiment.logs, log) is not None:
            yield Problem(("logs", log), "belongs to [logs.impressions], which is missing")
    if experiment.logs.units is not None and experiment.logs.units.segments:
        message = "without [logs.impressions], name them under [segments]"
        yield Problem(("logs", "units", "segments"), message)
    if not experiment.metrics:
        message = 'a table of units needs [[metrics]], such as name = "revenue", a column'
        yield Problem(("metrics",), message)


def _log(name: str, log: LogSource) -> Iterator[Problem]:
    known, where = canonical_columns(name), ("logs", *name.split("."))
    for column in log.columns:
        if column not in known:
            message = f"unknown column `{column}`{suggestion(column, known)}"
            yield Problem((*where, "columns", column), message)
    if log.database is not None and log.table is None:
        yield Problem((*where, "database"), "needs `table`, the table to read from the database")
    if log.path is not None and log.table is not None:
        yield Problem(where, "has both `path` and `table`; keep one")


def _tables(experiment: Experiment) -> Iterator[Problem]:
    for name, table in experiment.tables.items():
        where = ("tables", name)
        if name.lower() == OWN_TABLE or name in CANONICAL_COLUMNS:
            yield Problem(where, "is the name of a log; choose another")
        for key in ("where", "query", "columns", "time_unit", "ts_format", "ts_zone"):
            if key in table.model_fields_set:
                yield Problem((*where, key), "belongs to a log; write it into the query")
    if experiment.tables and not any(
        log.query is not None for log in experiment.logs.named.values()
    ):
        yield Problem(("tables",), "are read by the `query` of a log, but no log has one")


def _assignment(experiment: Experiment) -> Iterator[Problem]:
    own = experiment.assignment
    if own is None:
        return
    if (
        own.scheme is not None
        and not own.model_copy(update={"scheme": None, "order": None}).is_plain
    ):
        message = (
            "`traffic`, `layer` and `holdout` are for a `salt`; a scheme has settings of its own"
        )
        yield Problem(("assignment", "scheme"), message)
    if own.order is not None and sorted(own.order) != sorted(experiment.variants):
        yield Problem(("assignment", "order"), "must name each variant once")
        return
    try:
        _ = experiment.assignment_rule
    except ExperimentError as error:
        yield Problem(("assignment",), str(error).replace("\n", ": "))


def _cleaning(experiment: Experiment) -> Iterator[Problem]:
    cleaning = experiment.cleaning
    if cleaning.duplicate_key is not None and cleaning.duplicates != "drop":
        yield Problem(("cleaning", "duplicate_key"), 'is used only with duplicates = "drop"')
    if cleaning.crossover == "as_assigned" and not (
        experiment.assigns or experiment.logs.exposures
    ):
        yield Problem(
            ("cleaning", "crossover"),
            '"as_assigned" needs [assignment] salt or an exposures log, to know the assignment',
        )


def _metrics(experiment: Experiment) -> Iterator[Problem]:
    builtin = known_metrics(experiment)
    seen: set[str] = set()
    for i, choice in enumerate(experiment.metrics):
        if choice.name in seen:
            yield Problem(("metrics", i, "name"), f"{choice.name!r} is listed twice")
        seen.add(choice.name)
        yield from _definition(i, choice, list(builtin))
        if choice.of_events:
            yield from event_problems(experiment, i, choice)
        can_be_capped = choice.name not in builtin or builtin[choice.name].source.capped
        if choice.cap is not None and (not can_be_capped or choice.quantile is not None):
            yield Problem(("metrics", i, "cap"), f"{choice.name} has no totals per unit to cap")
        role = choice.role or (builtin[choice.name].role if choice.name in builtin else "goal")
        if role == "guardrail" and choice.margin is None:
            message = (
                "a guardrail needs a margin, the largest harm that is allowed: 0.02 is 2 % of "
                "control"
            )
            yield Problem(("metrics", i, "margin"), message)


def _definition(i: int, choice: MetricChoice, builtin: list[str]) -> Iterator[Problem]:
    if not choice.is_own:
        if choice.quantile is not None:
            yield Problem(
                ("metrics", i, "quantile"),
                "needs `value`, the expression whose quantile is computed",
            )
        if choice.name not in builtin:
            hint = suggestion(choice.name, builtin) or "; `abeval metrics` lists the built-in ones"
            message = f"no built-in metric is called {choice.name!r}{hint}"
            yield Problem(
                ("metrics", i, "name"),
                f"{message} (or give `value`, or `numerator` and `denominator`)",
            )
        return
    if choice.name in builtin:
        yield Problem(
            ("metrics", i, "name"), f"{choice.name!r} is a built-in metric; choose another"
        )
    if choice.function is not None:
        yield from _function(i, choice)
        return
    ratio = (choice.numerator is not None, choice.denominator is not None)
    has_value = choice.value is not None or (choice.of_events and not any(ratio))
    if has_value == any(ratio) or any(ratio) != all(ratio):
        message = "give either `value`, or both `numerator` and `denominator`"
        yield Problem(("metrics", i), message)
    if choice.quantile is not None and choice.value is None:
        message = "needs `value`, an expression of the impression"
        yield Problem(("metrics", i, "quantile"), message)
    for key in ("value", "numerator", "denominator"):
        text = getattr(choice, key)
        if text is not None and (problem := expression_problem(text)):
            yield Problem(("metrics", i, key), problem)


def _function(i: int, choice: MetricChoice) -> Iterator[Problem]:
    for key in ("value", "numerator", "denominator", "quantile", "cap", "covariates"):
        if getattr(choice, key) is not None:
            yield Problem(("metrics", i, key), "cannot be used with `function`")
    if problem := function_problem(str(choice.function)):
        yield Problem(("metrics", i, "function"), problem)
