"""Entries of metrics since exposure, and of outcome logs, that contradict each other.

`consistency.py` adds what comes back to the other contradictions.
"""

from collections.abc import Iterator
from itertools import pairwise

from abeval.bounds import MAX_WINDOW_DAYS
from abeval.experiment.metrics import CLICKS, IMPRESSIONS, UNITS, combined_by
from abeval.experiment.model import Experiment
from abeval.experiment.problems import Path, Problem, suggestion
from abeval.experiment.sections import MetricChoice
from abeval.experiment.sources import CANONICAL_COLUMNS, OWN_TABLE, ROW_UNIT
from abeval.metrics.definition import span_ms
from abeval.metrics.row_text import columns_of, expression_problem

_DAY_MS = 86_400_000
_KEYS = ("log", "per_unit", "where", "within", "retention", "funnel")


def outcome_log_problems(experiment: Experiment) -> Iterator[Problem]:
    """Outcome logs whose names are taken, or that have no units to join."""
    for name in experiment.logs.events:
        where = ("logs", "events", name)
        if name in CANONICAL_COLUMNS or name == OWN_TABLE or name in experiment.tables:
            yield Problem(where, "is the name of another log or table; choose another")
        if experiment.unit == ROW_UNIT:
            yield Problem(where, 'needs a unit to join by; unit = "row" has none')
        elif experiment.of_units:
            yield Problem(where, "belongs to [logs.impressions], which is missing")


def event_problems(experiment: Experiment, i: int, choice: MetricChoice) -> Iterator[Problem]:
    """What is wrong with a metric since exposure."""
    if experiment.of_units or experiment.unit == ROW_UNIT:
        lacks = "a table of units" if experiment.of_units else 'unit = "row"'
        for key in _used(choice):
            yield Problem(("metrics", i, key), f"needs a log of rows of units; this is {lacks}")
        return
    yield from _logs(experiment, i, choice)
    yield from _keys(i, choice)
    yield from _of_table(i, choice)
    yield from _values(i, choice)
    if choice.within is not None:
        window = span_ms(choice.within)
        if not 0 < window <= MAX_WINDOW_DAYS * _DAY_MS:
            message = f"{choice.within!r} is not between 0 and {MAX_WINDOW_DAYS} days"
            yield Problem(("metrics", i, "within"), message)


def _used(choice: MetricChoice) -> list[str]:
    return [key for key in _KEYS if getattr(choice, key) is not None]


def _logs(experiment: Experiment, i: int, choice: MetricChoice) -> Iterator[Problem]:
    """Each log is there, and each condition is an expression of its rows."""
    rows: list[tuple[Path, str, str | None]] = [
        (("metrics", i, "funnel", k), step.log, step.where)
        for k, step in enumerate(choice.funnel or ())
    ]
    rows.append((("metrics", i), choice.log or IMPRESSIONS, choice.where))
    known = [IMPRESSIONS, CLICKS, *experiment.logs.events]
    known += [] if experiment.unit_table is None else [UNITS]
    for where, log, condition in rows:
        if log not in known:
            hint = suggestion(log, known)
            message = f"no log of rows of units is called {log!r}{hint}"
            yield Problem((*where, "log"), f"{message}; [logs.events.{log}] would be one")
        if condition is not None and (problem := expression_problem(condition)):
            yield Problem((*where, "where"), problem)
    steps = [(step.log, step.where) for step in choice.funnel or ()]
    for k, (step, following) in enumerate(pairwise(steps), start=1):
        if step == following:
            message = "is the same as the step before it: one row would be both"
            yield Problem(("metrics", i, "funnel", k), message)


def _keys(i: int, choice: MetricChoice) -> Iterator[Problem]:
    """Keys that exclude each other."""
    excluded = {
        "funnel": ("log", "where", "per_unit", "retention", *_TEXTS),
        "retention": ("per_unit", "within", *_TEXTS),
        "quantile": _KEYS,
        "function": _KEYS,
    }
    for key, others in excluded.items():
        if getattr(choice, key) is None:
            continue
        for other in others:
            if getattr(choice, other) is not None:
                yield Problem(("metrics", i, other), f"cannot be used with `{key}`")


def _of_table(i: int, choice: MetricChoice) -> Iterator[Problem]:
    """A table of units has one row a unit, and no times."""
    for k, step in enumerate(choice.funnel or ()):
        if step.log == UNITS:
            yield Problem(("metrics", i, "funnel", k), "a table of units has no times")
    for key in ("within", "retention") if choice.log == UNITS else ():
        if getattr(choice, key) is not None:
            yield Problem(("metrics", i, key), "a table of units has no times")


_TEXTS = ("value", "numerator", "denominator")


def _values(i: int, choice: MetricChoice) -> Iterator[Problem]:
    """Values fit how they are combined, and are of single rows."""
    combine = combined_by(choice)
    if choice.denominator is not None and combine != "sum":
        message = 'with `numerator` and `denominator` only "sum" has a meaning'
        yield Problem(("metrics", i, "per_unit"), message)
    if choice.value is None and choice.denominator is None and combine != "any":
        message = f'per_unit = "{combine}" needs `value`, the expression of a row'
        yield Problem(("metrics", i, "per_unit"), message)
    for key in (*_TEXTS, "where"):
        text = getattr(choice, key)
        if text is None or expression_problem(text) is not None:
            continue
        if (choice.log or IMPRESSIONS) == IMPRESSIONS and "score" in columns_of(text):
            message = "reads `score`, which has no value per unit since exposure"
            yield Problem(("metrics", i, key), message)
