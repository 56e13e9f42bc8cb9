"""Where the sums per unit and day come from: by default, one pass over the log.

`prepare.py` calls it to create `logged_sums`; a warehouse gives sums in place of the pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from abeval.engines.protocol import Engine
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


def load_sums(engine: Engine, sql: str, is_kept: bool = True) -> None:
    """Make `logged_sums`; a cell may have several rows, as whoever reads them adds them up."""
    create = engine.table if is_kept else engine.view
    create("logged_sums", sql)


def one_pass(run: Run, metrics: Sequence[Metric], shape: LogShape) -> Summed:
    """Sum the whole log; a table of units has one row of each, so nothing is to be summed."""
    check_clicks(shape, run.engine)
    of_units = run.experiment.of_units
    load_sums(run.engine, query(f"units/logged_{'rows' if of_units else 'sums'}"), not of_units)
    return Summed()
