"""Where the sums per unit and day come from: one pass over the log, unless told otherwise."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from abeval.engines.protocol import Engine
from abeval.experiment.model import Experiment
from abeval.logs.shape import LogShape
from abeval.metrics import Metric
from abeval.queries import query

Step = Callable[[str], None]


class Summed(NamedTuple):
    """How `logged_sums` came to be.

    Attributes:
        notes: What a reader of the result must know of it.
        has_rows: Whether the log that they are of can be read too.
    """

    notes: tuple[str, ...] = ()
    has_rows: bool = True


Sums = Callable[[Experiment, Sequence[Metric], LogShape, Engine, Step], Summed]
"""Makes the table `logged_sums`.

Several rows of one cell are as good as one: whoever reads the table adds them up."""


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
