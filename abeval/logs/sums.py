"""Where the sums per unit and day come from: by default, one pass over the log.

`prepare.py` calls it to create `logged_sums`; a warehouse gives sums in place of the pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from abeval.engines.protocol import ArrayEngine, row_count
from abeval.engines.sql import query
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
"""Makes `logged_sums`; a cell may have several rows, as whoever reads them adds them up."""

_FEW = 100_000
"""Rows of a table of units that are kept as sums, rather than read anew by each query."""


def one_pass(run: Run, metrics: Sequence[Metric], shape: LogShape) -> Summed:
    """Sum the whole log; a table of units has one row of each, so nothing is to be summed."""
    check_clicks(shape, run.engine)
    engine, of_units = run.engine, run.experiment.of_units
    # A few rows are planned once; many would be in memory twice.
    is_few = isinstance(engine, ArrayEngine) and of_units and row_count(engine, "raw_units") <= _FEW
    create = engine.view if of_units and not is_few else engine.table
    create("logged_sums", query(f"units/logged_{'rows' if of_units else 'sums'}"))
    return Summed()
