"""Add metrics and test statistics from notebooks, scripts and entry points."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from abeval import bounds
from abeval.errors import ExperimentError
from abeval.experiment.metrics import define_metric
from abeval.experiment.problems import suggest_name
from abeval.experiment.sections import WORD, MetricChoice
from abeval.metrics import definition
from abeval.metrics.builtin import ADDED, load_builtin_metrics, read_entry_points
from abeval.metrics.definition import ROW_NEEDS, ColumnTerm, Metric, Role, Source
from abeval.metrics.row_text import find_expression_problem
from abeval.stats.moments import Moments
from abeval.stats.records import Estimate

_OTHER_NAMES: Mapping[str, str] = {
    need: column for column, need in ROW_NEEDS.items() if need != column
}
_ALWAYS = ("unit_id", "in_period", "day")


def add_metric(
    name: str,
    *,
    value: str,
    per: str | None = None,
    query: str | None = None,
    reads: Sequence[str] = (),
    scale: float | None = None,
    formula: str = "",
    unit: str = "",
    role: Role = "goal",
    direction: Literal["increase", "decrease"] = "increase",
    test: str | None = None,
) -> Metric:
    """Add a metric that experiments name as they name a built-in one.

    Without a query, `value` and `per` are expressions of an impression that are summed by unit.
    With one, they are columns of it. A second metric of the same name replaces the first.

    Args:
        name: How experiments name it.
        value: What is summed: the numerator of a ratio, or what a mean divides by the units.
        per: The denominator of a ratio.
        query: A SELECT from `metric_rows`, the impressions of analysed units. It gives one row for
            each `unit_id` and `in_period`, and for each `day` if days add up, with sums `c_…` that
            are whole numbers.
        reads: Columns of `metric_rows` that the query reads besides `unit_id`, `in_period` and
            `day`: `request_id`, `item_id`, `position`, `category`, `click`, `dwell_ms`, `score`,
            `time_ms`, and the log's own.
        scale: The worth of 1 in the sum of `value`, 1 by default. Without a query, values are
            rounded to whole multiples of it, by default 1e-6.
        formula: The definition in words, for reports.
        unit: Unit of the value, such as `share` or `s`.
        role: What the metric is for, unless an experiment says otherwise.
        direction: Which way is better, unless an experiment says otherwise.
        test: A name that `abeval.test_statistic` gave.

    Raises:
        ExperimentError: The definition has a mistake; the message says which.

    Example:
        >>> add_metric(
        ...     "clicked_requests",
        ...     formula="distinct requests with a click / units",
        ...     value="c_requests",
        ...     reads=["request_id", "click"],
        ...     query='''
        ...         select unit_id, in_period, day, count(distinct request_id) as c_requests
        ...         from metric_rows where click = 1 group by unit_id, in_period, day
        ...     ''',
        ... ).kind
        'mean'
    """
    if not re.fullmatch(WORD, name):
        raise _make_metric_error(name, "a name has letters, digits and _, and begins with a letter")
    if name in load_builtin_metrics(30, 30):
        raise _make_metric_error(name, "is the name of a built-in metric: choose another")
    if direction not in definition.DIRECTIONS:
        raise _make_metric_error(name, f"direction is {direction!r}, not increase or decrease")
    if scale is not None and not bounds.MIN_RESOLUTION <= scale <= 1:
        raise _make_metric_error(
            name, f"scale is {scale:g}, not between {bounds.MIN_RESOLUTION:g} and 1"
        )
    if query is None:
        if reads:
            raise _make_metric_error(
                name, "`reads` is for a query: expressions name their columns themselves"
            )
        metric = _define_sums(name, value, per, 1e-6 if scale is None else scale)
    else:
        query = query.strip().rstrip(";")
        metric = _define_query(name, value, per, query, reads, 1.0 if scale is None else scale)
    ADDED[name] = replace(
        metric,
        formula=" ".join(formula.split()) or metric.formula,
        unit=unit,
        role=role,
        direction=definition.DIRECTIONS[direction],
        test=test,
    )
    return ADDED[name]


_TestStatistic = Callable[[Moments, Moments], tuple[Estimate, Estimate]]
"""Function of the moments of both variants that estimates a metric in each."""

_Function = TypeVar("_Function", bound=_TestStatistic)

_TESTS: dict[str, _TestStatistic] = {}


def test_statistic(name: str) -> Callable[[_Function], _Function]:
    """Add a test statistic that metrics name as their `test`: decorate a function.

    The function gets the moments of control and of the treatment: `n` units, and `mean` and
    `covariance` of (numerator, denominator) per unit; the denominator of a mean is 1. It returns
    an `Estimate` of each, with the variance and its degrees of freedom. Their difference, interval,
    p-value and lift follow, at each look. It may raise `abeval.stats.Refusal`.

    Raises:
        ExperimentError: The name is no word.

    Example:
        >>> from abeval.stats import means
        >>> @test_statistic("plain_welch")
        ... def compare_plain(control, treatment):
        ...     return means.estimate_mean(control), means.estimate_mean(treatment)
    """
    if not re.fullmatch(WORD, name):
        what = f"the test statistic {name!r}: a name has letters, digits and _"
        raise ExperimentError(what, "begin with a letter")

    def add(function: _Function) -> _Function:
        _TESTS[name] = function
        return function

    return add


# By its name pytest would take it for a test, in each module that imports it.
test_statistic.__dict__["__test__"] = False


def find_test(name: str) -> _TestStatistic:
    """Find a test statistic by name; the entry points are read if it is not there.

    Raises:
        ExperimentError: Nobody added it, or an entry point fails.
    """
    if name not in _TESTS:
        read_entry_points()
    if name not in _TESTS:
        what = f"no test statistic is called {name!r}{suggest_name(name, _TESTS)}"
        raise ExperimentError(what, "add it with abeval.test_statistic")
    return _TESTS[name]


def _make_metric_error(name: str, problem: str) -> ExperimentError:
    return ExperimentError(f"the added metric {name!r}: {problem}")


def _define_sums(name: str, value: str, per: str | None, scale: float) -> Metric:
    """Define a metric of expressions that are summed, as an experiment file does."""
    for key, text in (("value", value), ("per", per)):
        if text is not None and (problem := find_expression_problem(text)):
            raise _make_metric_error(name, f"{key}: {problem}")
    texts = {"value": value} if per is None else {"numerator": value, "denominator": per}
    return define_metric(MetricChoice.model_validate({"name": name, **texts, "resolution": scale}))


def _define_query(
    name: str, value: str, per: str | None, query: str, reads: Sequence[str], scale: float
) -> Metric:
    """Define a metric of columns that a query sums by unit."""
    selected = _list_selected_columns(name, query)
    for key, column in (("value", value), ("per", per)):
        if column is not None and (column not in selected or not column.startswith("c_")):
            sums = ", ".join(c for c in selected if c.startswith("c_")) or "no column named c_…"
            raise _make_metric_error(name, f"{key}: the query has no sum {column!r}; it has {sums}")
    columns = [_check_read_column(name, column) for column in reads]
    source = Source(
        f"added_{name}",
        name,
        ("in_period", "day", *columns),
        daily="day" in selected,
        no_days=None if "day" in selected else "its query has no column day",
        no_cuts="its query reads all rows of a unit, and a cut takes rows out of them",
        file=f"added/{name}",
        sql=query,
    )
    # Metrics of one query share its source, so that it runs once.
    same_sources = (metric.source for metric in ADDED.values())
    keys = source.sql, source.reads
    return Metric(
        name,
        "mean" if per is None else "ratio",
        f"Σ {value} / {'units' if per is None else f'Σ {per}'}",
        source=next((s for s in same_sources if (s.sql, s.reads) == keys), source),
        value=ColumnTerm(value, scale, rounded=scale != 1.0),
        per=None if per is None else ColumnTerm(per),
        needs=frozenset({"unit", *(ROW_NEEDS[c] for c in columns if c in ROW_NEEDS)}),
    )


def _list_selected_columns(name: str, query: str) -> list[str]:
    """List the columns of a query, and check those that each query has."""
    # Imported here: the parser is slow to load, and few metrics have a query of their own.
    from abeval.metrics.expressions import parse_select

    try:
        selected = [column.lower() for column in parse_select(query).named_selects]
    except ExperimentError as error:
        raise _make_metric_error(name, f"its query {error.what}") from error
    if "*" in selected:
        raise _make_metric_error(name, "its query selects *: name the columns")
    for column in ("unit_id", "in_period"):
        if column not in selected:
            raise _make_metric_error(
                name, f"its query has no column {column!r}: it is for each {column}"
            )
    return selected


def _check_read_column(name: str, column: str) -> str:
    """Check that a query may read a column; return its name in `metric_rows`."""
    lower = column.lower() if column.isascii() else column
    if lower in _ALWAYS or lower in _OTHER_NAMES:
        hint = "is always there" if lower in _ALWAYS else f"is {_OTHER_NAMES[lower]} there"
        raise _make_metric_error(name, f"reads: {column!r} {hint}")
    return lower
