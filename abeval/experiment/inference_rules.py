"""Entries of `[inference]` that contradict each other, each with what would fit.

`consistency.py` hands it the experiment and the built-in metrics, and adds what comes back to the
other contradictions.
"""

from collections.abc import Iterator, Mapping

from abeval.experiment.model import Experiment
from abeval.experiment.problems import Problem, suggestion
from abeval.experiment.sections import MetricChoice, moment
from abeval.metrics.definition import UNIT_DAY, Metric
from abeval.metrics.row_text import function_problem, names_of


def inference_problems(experiment: Experiment, builtin: Mapping[str, Metric]) -> list[Problem]:
    """Every contradiction in how effects are to be judged."""
    return [
        *_adjust(experiment),
        *_covariates(experiment, builtin),
        *_looks(experiment),
        *_planned_looks(experiment),
        *_family(experiment),
        *_resample(experiment),
        *_functions(experiment, builtin),
    ]


def _problem(entry: str, message: str) -> Problem:
    return Problem(("inference", entry), message)


def _adjust(experiment: Experiment) -> Iterator[Problem]:
    inference = experiment.inference
    by, segments = inference.stratify_by, experiment.segment_names
    by_covariates = inference.adjust in ("cuped", "regression")
    if by_covariates and experiment.of_units:
        yield from _unit_covariates(experiment)
    elif by_covariates and experiment.pre_period is None and not _has_table_covariates(experiment):
        message = "needs a [pre_period], whose values are the covariates"
        yield _problem("adjust", f'"{inference.adjust}" {message}')
    if inference.adjust != "none" and inference.relative == "log_delta":
        message = f'with adjust = "{inference.adjust}", choose "fieller" or "delta"'
        yield _problem("relative", message)
    if inference.adjust == "stratify" and by is None:
        yield _problem("stratify_by", 'adjust = "stratify" needs the name of one of [segments]')
    if by is not None and inference.adjust != "stratify":
        yield _problem("stratify_by", 'is used only with adjust = "stratify"')
    if by is not None and by not in segments:
        yield _problem("stratify_by", f"no segment is called {by!r}{suggestion(by, segments)}")
    for i, choice in enumerate(experiment.metrics):
        if choice.cap is not None and by_covariates and _has_table_covariates(experiment):
            message = "cannot be used with the covariates of [logs.units]"
            yield Problem(("metrics", i, "cap"), message)
        if choice.cap is not None and inference.adjust == "stratify":
            message = 'can be used with adjust = "cuped" or "regression", not with "stratify"'
            yield Problem(("metrics", i, "cap"), message)


def _has_table_covariates(experiment: Experiment) -> bool:
    """Whether a table of units gives covariates of all metrics."""
    units = experiment.logs.units
    return units is not None and bool(units.covariates)


def _unit_covariates(experiment: Experiment) -> Iterator[Problem]:
    units = experiment.logs.units
    if units is None or not (units.covariates or any(c.covariates for c in experiment.metrics)):
        message = "needs [logs.units] covariates, columns that were measured before the experiment"
        yield _problem("adjust", f'"{experiment.inference.adjust}" {message}')


def _covariates(experiment: Experiment, builtin: Mapping[str, Metric]) -> Iterator[Problem]:
    own = {choice.name for choice in experiment.metrics if choice.is_own}
    usable = {name for name, metric in builtin.items() if metric.source is UNIT_DAY}
    simple = [c for c in experiment.metrics if c.quantile is None and c.function is None]
    usable |= {c.name for c in simple if c.is_own and not c.of_events}
    for i, choice in enumerate(experiment.metrics):
        where = ("metrics", i, "covariates")
        if choice.covariates is None:
            continue
        if experiment.inference.adjust not in ("cuped", "regression"):
            yield Problem(where, 'needs [inference] adjust = "cuped" or "regression"')
        if choice.cap is not None:
            yield Problem(where, "cannot be used with `cap`")
        if experiment.of_units:
            # They are columns of the table.
            continue
        if not _has_covariates(choice, builtin):
            yield Problem(where, f"{choice.name} is not made of sums over impressions")
        for name in choice.covariates:
            if name not in {*builtin, *own}:
                hint = suggestion(name, [*builtin, *own])
                yield Problem(where, f"no metric is called {name!r}{hint}")
            elif name not in usable:
                yield Problem(where, f"{name!r} is not made of sums over impressions")


def _has_covariates(choice: MetricChoice, builtin: Mapping[str, Metric]) -> bool:
    if choice.is_own or choice.name not in builtin:
        return choice.quantile is None and choice.function is None and not choice.of_events
    return builtin[choice.name].source is UNIT_DAY


def _resample(experiment: Experiment) -> Iterator[Problem]:
    inference = experiment.inference
    some = inference.resample is not None or any(c.function for c in experiment.metrics)
    if some and inference.relative == "log_delta":
        yield _problem("relative", 'with resampling, choose "fieller" or "delta"')
    if inference.resample is not None and inference.adjust != "none":
        yield _problem("resample", f'cannot be used with adjust = "{inference.adjust}"')
    if inference.resample == "permutation" and inference.looks != "fixed":
        yield _problem("resample", '"permutation" is for looks = "fixed"')
    for i, choice in enumerate(experiment.metrics):
        if inference.resample is not None and choice.cap is not None:
            yield Problem(("metrics", i, "cap"), "cannot be used with [inference] resample")


def _functions(experiment: Experiment, builtin: Mapping[str, Metric]) -> Iterator[Problem]:
    """Functions may name means and ratios, built-in ones or the file's own."""
    usable = {name for name, metric in builtin.items() if metric.is_mean_or_ratio}
    own = [c for c in experiment.metrics if c.is_own]
    usable |= {c.name for c in own if c.function is None and c.quantile is None}
    for i, choice in enumerate(experiment.metrics):
        if choice.function is None or function_problem(choice.function) is not None:
            continue
        for name in names_of(choice.function):
            if name not in usable:
                known = name in builtin or any(c.name == name for c in own)
                what = "is not a mean or a ratio" if known else "is not a metric"
                hint = "" if known else suggestion(name, usable)
                yield Problem(("metrics", i, "function"), f"{name!r} {what}{hint}")


def _looks(experiment: Experiment) -> Iterator[Problem]:
    inference = experiment.inference
    sequential = inference.looks == "group_sequential"
    if inference.planned_units is not None and inference.looks == "fixed":
        message = 'is used only with looks = "always_valid" or "group_sequential"'
        yield _problem("planned_units", message)
    if sequential and inference.planned_looks is None:
        message = 'looks = "group_sequential" needs the planned looks: dates, or shares such as 0.5'
        yield _problem("planned_looks", message)
    if inference.planned_looks is not None and not sequential:
        yield _problem("planned_looks", 'is used only with looks = "group_sequential"')
    if "spending" in inference.model_fields_set and not sequential:
        yield _problem("spending", 'is used only with looks = "group_sequential"')
    if sequential and experiment.period is None and inference.planned_units is None:
        message = (
            'looks = "group_sequential" needs a [period] or planned_units, to know how much is '
            "planned"
        )
        yield _problem("looks", message)


def _planned_looks(experiment: Experiment) -> Iterator[Problem]:
    inference, period = experiment.inference, experiment.period
    looks = inference.planned_looks or []
    dates = [moment(look) for look in looks if not isinstance(look, float)]
    if dates and len(dates) < len(looks):
        yield _problem("planned_looks", "mixes dates and shares; keep one kind")
    elif dates and inference.planned_units is not None:
        yield _problem(
            "planned_looks", "dates are looks of a [period]; with planned_units, use shares"
        )
    elif dates and period is None:
        yield _problem("planned_looks", "dates need a [period]")
    elif period is not None:
        start, end = period.bounds
        for date in dates:
            if not start < date <= end:
                message = f"{date} must be after the period's start and not after its end"
                yield _problem("planned_looks", message)


def _family(experiment: Experiment) -> Iterator[Problem]:
    inference = experiment.inference
    if inference.family == "dunnett" and inference.looks != "fixed":
        yield _problem("family", '"dunnett" is for looks = "fixed"; choose "holm"')
    for i, choice in enumerate(experiment.metrics):
        if choice.weight is not None and inference.family != "weighted":
            message = 'is used only with [inference] family = "weighted"'
            yield Problem(("metrics", i, "weight"), message)
        if choice.weight is not None and choice.role not in (None, "goal"):
            yield Problem(
                ("metrics", i, "weight"), "is only for goals: it is the goal's share of alpha"
            )
