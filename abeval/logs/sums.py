"""Where the sums per unit and day come from: one pass over the log, unless told otherwise."""

from collections.abc import Callable, Sequence

from abeval.engines.protocol import Engine
from abeval.experiment.model import Experiment
from abeval.logs.shape import LogShape
from abeval.metrics import Metric
from abeval.queries import query

Step = Callable[[str], None]

Sums = Callable[[Experiment, Sequence[Metric], LogShape, Engine, Step], tuple[str, ...]]
"""Makes the table `logged_sums`, and says what a reader of the result must know of how.

Several rows of one cell are as good as one: whoever reads the table adds them up."""


def one_pass(
    experiment: Experiment,
    metrics: Sequence[Metric],
    shape: LogShape,
    engine: Engine,
    step: Step,
) -> tuple[str, ...]:
    """Sum the whole log."""
    engine.table("logged_sums", query("units/logged_sums"))
    return ()
