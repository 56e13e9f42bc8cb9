"""Where the sums per unit and day come from: by default, one pass over the log.

`prepare.py` calls it to create `logged_sums`; a warehouse gives sums in place of the pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from abeval.engines.queries import query
from abeval.logs.checks import check_clicks
from abeval.logs.run import Run
from abeval.logs.shape import LogShape
from abeval.metrics.definition import Metric


@dataclass(frozen=True)
class Summed:
    """What `logged_sums` holds.

    Attributes:
        notes: What a reader of the result must know about it.
        has_rows: Whether the log itself can be read too.
    """

    notes: tuple[str, ...] = ()
    has_rows: bool = True


Sums = Callable[[Run, Sequence[Metric], LogShape], Summed]
"""Makes `logged_sums`."""


def one_pass(run: Run, metrics: Sequence[Metric], shape: LogShape) -> Summed:
    """Sum the whole log; a table of units has one row of each, so nothing is to be summed."""
    check_clicks(shape, run.engine)
    if run.experiment.of_units:
        run.engine.view("logged_sums", query("units/logged_rows"))
    else:
        run.engine.table("logged_sums", query("units/logged_sums"))
    return Summed()
