"""Entries of an experiment file that contradict each other.

`load.py` hands it the experiment that pydantic accepts, and reports what comes back with all other
mistakes.
"""

from collections.abc import Iterator, Mapping
from zoneinfo import ZoneInfo, available_timezones

from abeval.errors import ExperimentError
from abeval.experiment.inference_rules import inference_problems
from abeval.experiment.metrics import known_metrics
from abeval.experiment.model import ROW_UNIT, Experiment, LogSource, MetricChoice
from abeval.experiment.problems import Problem, suggestion
from abeval.metrics.expressions import expression_problem
from abeval.metrics.functions import function_problem

CANONICAL_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "impressions": (
        "impression_id",
        "request_id",
        "unit_id",
        "item_id",
        "ts",
        "variant",
        "position",
        "score",
        "click",
        "dwell",
        "category",
        "propensity",
    ),
    "clicks": ("impression_id", "request_id", "item_id", "position", "ts", "dwell"),
    "items": ("item_id", "category", "embedding"),
    "exposures": ("unit_id", "ts", "variant"),
    "scores": ("model", "stage", "request_id", "item_id", "score", "rank"),
    "truth": ("request_id", "unit_id", "item_id", "grade"),
}
"""abeval's names for the columns of each log."""


def inconsistencies(experiment: Experiment) -> list[Problem]:
    """Every contradiction between entries, each with its path."""
    return [
        *_names(experiment),
        *_variants(experiment),
        *_times(experiment),
        *_logs(experiment),
        *_assignment(experiment),
        *_cleaning(experiment),
        *_metrics(experiment),
        *_segments(experiment),
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
    if len(experiment.variants) < 2:
        yield Problem(("variants",), "an experiment compares at least two variants")
    elif not any(experiment.variants[name].weight > 0 for name in experiment.treatments):
        yield Problem(("variants",), "every variant but control has weight 0")
    if (control := experiment.variants.get(experiment.control)) and control.weight == 0:
        where = ("variants", experiment.control, "weight")
        yield Problem(where, "control has weight 0, so there is nothing to compare with")


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


def _logs(experiment: Experiment) -> Iterator[Problem]:
    logs = experiment.logs
    for name in CANONICAL_COLUMNS:
        log: LogSource | None = getattr(logs, name)
        if log is not None:
            yield from _log(name, log)
    if logs.clicks is not None and "click" in logs.impressions.columns:
        where = ("logs", "impressions", "columns", "click")
        yield Problem(
            where, "a click is a column of the impression or a row of logs.clicks, not both"
        )
    if logs.exposures is not None and experiment.unit == ROW_UNIT:
        yield Problem(("logs", "exposures"), 'needs a unit to join by; unit = "row" has none')


def _log(name: str, log: LogSource) -> Iterator[Problem]:
    known = CANONICAL_COLUMNS[name]
    for column in log.columns:
        if column not in known:
            message = f"unknown column `{column}`{suggestion(column, known)}"
            yield Problem(("logs", name, "columns", column), message)
    if log.database is not None and log.table is None:
        yield Problem(
            ("logs", name, "database"), "needs `table`, the table to read from the database"
        )
    if log.path is not None and log.table is not None:
        yield Problem(("logs", name), "has both `path` and `table`; keep one")


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
        experiment.assignment or experiment.logs.exposures
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
    if (choice.value is not None) == any(ratio) or any(ratio) != all(ratio):
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


def _segments(experiment: Experiment) -> Iterator[Problem]:
    for name, text in experiment.segments.items():
        if problem := expression_problem(text):
            yield Problem(("segments", name), problem)
