"""Which expression of the experiment file makes the queries of the logs fail.

`prepare.py` asks it when a query has failed; the user gets the error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from abeval.engines.protocol import Engine
from abeval.engines.sql import quoted
from abeval.errors import AbevalError, ExperimentError, QueryError
from abeval.experiment.model import Experiment
from abeval.logs import views
from abeval.logs.shape import LogShape
from abeval.metrics.definition import Metric, event_terms, row_terms


class _Expression(NamedTuple):
    """An expression of the file.

    Attributes:
        where: The metric, segment or cut that has it.
        text: As it is written.
        column: SQL of a number over `logged`, which holds it.
        only: The logs' shape without any other expression.
    """

    where: str
    text: str
    column: str
    only: LogShape


def faulty_expression(
    experiment: Experiment,
    metrics: Sequence[Metric],
    shape: LogShape,
    engine: Engine,
    error: QueryError,
) -> AbevalError:
    """The error of a sum, with the metric, segment or cut whose expression causes it."""
    # An error with a hint, such as one about memory, already says what to do.
    if error.hint is not None or _fails("select count(*) from seen", engine):
        return error
    what = error.what.partition(" could not run a query: ")[2] or error.what
    expressions = _expressions(experiment, metrics, shape)
    # A wrong type, or a constant that cannot be computed, makes every query of all rows fail.
    if _fails("select count(*) from logged", engine):
        known = (e for e in expressions if _fails(_by_itself(experiment, e), engine))
    else:
        known = (e for e in expressions if _fails(_SUMS.format(column=e.column), engine))
    faulty = next(known, None)
    if faulty is None:
        return error
    what = f"{faulty.where}: {faulty.text!r} cannot be computed: {what}"
    return ExperimentError(what, _advice(what))


def _expressions(
    experiment: Experiment, metrics: Sequence[Metric], shape: LogShape
) -> Iterator[_Expression]:
    has, one = shape.needs_met(experiment.unit), {"1": shape.components["1"]}
    none = replace(shape, components=one, segments={}, cuts={}, events={})
    sql = {column: sql for sql, column in (*shape.components.items(), *shape.events.items())}
    for metric in (m for m in metrics if m.needs <= has):
        # Those that quantiles rank first: their sums wrap what the user wrote.
        ranked = ((term, shape.event) for term in event_terms(metric))
        summed = ((term, shape.component) for term in row_terms(metric))
        for term, column_of in (*ranked, *summed):
            for column in dict.fromkeys(column_of(term, v) for v in experiment.variants):
                only = replace(none, components={**one, sql[column]: column})
                yield _Expression(f"metric {metric.name!r}", term.expression, column, only)
    for name, text in experiment.row_segments.items():
        only = replace(none, segments={name: shape.segments[name]})
        yield _Expression(f"segments.{name}", text, f"length({quoted(f's_{name}')})", only)
    for name, text in experiment.cuts.items():
        only = replace(none, cuts={name: shape.cuts[name]})
        yield _Expression(f"cuts.{name}", text, f"length({quoted(views.cut_name(name))})", only)


def _by_itself(experiment: Experiment, expression: _Expression) -> str:
    """SQL that fails if an expression cannot be computed for any row."""
    logged = views.logged_view(experiment, expression.only)
    return f"select count({expression.column}) from ({logged}) as logged"


_SUMS = """
select max(v) from (
  select cast(sum({column}) as bigint) as v from logged group by unit_id, in_period, day
) as sums
"""


def _fails(sql: str, engine: Engine) -> bool:
    try:
        engine.rows(sql)
    except QueryError:
        return True
    return False


def _advice(what: str) -> str:
    text = what.lower()
    if "division by zero" in text:
        return "write nullif(x, 0) for the divisor x"
    if "convert string" in text:
        return "try_cast(x as double) turns text that is not a number into null"
    if "out of range" in text or "overflow" in text:
        return (
            "sums must stay below 9.2e18 steps of `resolution` (1e-6 by default): divide the "
            "value, or set a coarser resolution"
        )
    return "check the types of its columns; the value must be a number (text in a segment or a cut)"
