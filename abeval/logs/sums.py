"""Where the sums per unit and day come from: one pass over the log, unless told otherwise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from abeval.engines.protocol import Engine
from abeval.engines.queries import query
from abeval.experiment.model import Experiment
from abeval.logs.shape import LogShape
from abeval.metrics.definition import Metric

if TYPE_CHECKING:
    import pandas as pd

    from abeval.aggregates.aggregates import Aggregates
    from abeval.aggregates.metric_queries import MetricQueries, Row

Step = Callable[[str], None]


class DayTotals(NamedTuple):
    """What single days add up to.

    Attributes:
        rows: Rows of `aggregates.MOMENT_COLUMNS`, of the slice `day`.
        days: Rows of `units/days`.
    """

    rows: "list[Row]"
    days: "pd.DataFrame"


Settle = Callable[["MetricQueries", Sequence[Metric], DayTotals], DayTotals]
"""Adds closed days to the days at hand, once units are placed."""


class Earlier(NamedTuple):
    """What all units added up to before some had new rows; the view `logged_sums` is of these.

    Attributes:
        aggregates: Of all units, as they were.
        sums: SQL of the rows of `logged_sums` that the units at hand had then.
    """

    aggregates: "Aggregates"
    sums: str


@dataclass(frozen=True)
class Summed:
    """How `logged_sums` came to be.

    Attributes:
        notes: What a reader of the result must know of it.
        has_rows: Whether the log that they are of can be read too.
        closed: The relation with the sums per unit of days that are closed, None where none are.
        settle: What adds closed days to those at hand, None where there is nothing to add.
        earlier: What stands beside the units at hand, None where these are all units.
        keep: Told the aggregates of all units, None where nobody wants them.
    """

    notes: tuple[str, ...] = ()
    has_rows: bool = True
    closed: str | None = None
    settle: Settle | None = None
    earlier: Earlier | None = None
    keep: "Callable[[Aggregates], None] | None" = None


Sums = Callable[[Experiment, Sequence[Metric], LogShape, Engine, Step], Summed]
"""Makes `logged_sums`.

Several rows of one cell are as good as one: whoever reads it adds them up."""


def one_pass(
    experiment: Experiment,
    metrics: Sequence[Metric],
    shape: LogShape,
    engine: Engine,
    step: Step,
) -> Summed:
    """Sum the whole log."""
    engine.table("logged_sums", query("units/logged_sums"))
    return Summed()
