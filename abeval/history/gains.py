"""What experiments gained: effects shrunk by the spread of past ones, priors, and sensitivity.

`report.py` and `history.py` hand over measures.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from abeval.errors import ExperimentError
from abeval.history.measures import Case, Measure, Measures
from abeval.history.predictions import signal
from abeval.results.history import Gained, HistoryEffect, HistoryPrior, Sensitivity
from abeval.stats import shrinkage
from abeval.stats.distributions import two_sided_quantile
from abeval.stats.proportions import Count, interval
from abeval.stats.records import Floats


class Columns(NamedTuple):
    """The effects of a measure, shape (effects,) each.

    Attributes:
        cases: Experiment and variant of each.
        values: Effects, raw sign.
        ses: Their standard errors.
    """

    cases: tuple[Case, ...]
    values: Floats
    ses: Floats

    @property
    def experiments(self) -> int:
        """How many experiments there are."""
        return len({experiment for experiment, _ in self.cases})


def columns(measure: Measure) -> Columns:
    """The effects of a measure as columns."""
    effects = [*measure.effects.values()]
    values, ses = np.array([e.value for e in effects]), np.array([e.se for e in effects])
    return Columns(tuple(measure.effects), values, ses)


def prior(measure: Measure, alpha: float) -> HistoryPrior:
    """The normal distribution of a metric's true lifts.

    Raises:
        ExperimentError: Too few experiments have the metric.
    """
    own = columns(measure)
    too_few = own.experiments < shrinkage.FEWEST
    if too_few:
        what = f"{measure.name} has an effect in {own.experiments} experiments of the history"
        raise ExperimentError(what, f"a prior needs {shrinkage.FEWEST} or more: add their results")
    fitted = shrinkage.prior(own.values, own.ses, alpha)
    return HistoryPrior(measure.name, *fitted, own.experiments)


def gained(measure: Measure, history: Measures, alpha: float) -> Gained:
    """The sum of what was shipped, as estimated and as shrunk."""
    own = columns(measure)
    shipped = np.array([case in history.shipped for case in own.cases], dtype=bool)
    naive = float(own.values[shipped].sum())
    counts = int(shipped.sum()), len(own.values)
    if own.experiments < shrinkage.FEWEST:
        return Gained(measure.name, *counts, naive, *(None,) * 5, "too_few_units")
    fitted = shrinkage.prior(own.values, own.ses, alpha)
    total = shrinkage.total(own.values, own.ses, shipped, alpha)
    numbers = total.value, total.low, total.high, fitted.mean, fitted.sd
    return Gained(measure.name, *counts, naive, *numbers, None)


def effects(measure: Measure, history: Measures, alpha: float) -> Iterable[HistoryEffect]:
    """Every effect of a measure, with its shrunken one where it is over the whole experiment."""
    own = columns(measure)
    reach = two_sided_quantile(alpha) * own.ses
    posterior = None
    if measure.side == "online" and own.experiments >= shrinkage.FEWEST:
        posterior = shrinkage.shrink(own.values, own.ses, alpha)
    for i, (experiment, variant) in enumerate(own.cases):
        yield HistoryEffect(
            experiment=experiment,
            variant=variant,
            measure=measure.name,
            side=measure.side,
            direction=measure.direction,
            effect=float(own.values[i]),
            low=float(own.values[i] - reach[i]),
            high=float(own.values[i] + reach[i]),
            shrunk=None if posterior is None else float(posterior.value[i]),
            shrunk_low=None if posterior is None else float(posterior.low[i]),
            shrunk_high=None if posterior is None else float(posterior.high[i]),
            shipped=(experiment, variant) in history.shipped,
        )


def sensitivity(measure: Measure, alpha: float) -> Sensitivity:
    """How often a metric moves, and how far true effects spread."""
    own = columns(measure)
    p_values = [effect.p_value for effect in measure.effects.values()]
    tested = [p for p in p_values if p is not None]
    moved = sum(p < alpha for p in tested)
    low, high = interval(Count(moved, len(tested)), alpha) if tested else (0.0, 1.0)
    spread = reason = None
    if own.experiments < shrinkage.FEWEST:
        reason = "too_few_units"
    else:
        spread = shrinkage.prior(own.values, own.ses, alpha).sd
    return Sensitivity(
        measure=measure.name,
        side=measure.side,
        experiments=own.experiments,
        effects=len(tested),
        moved=moved,
        share=moved / max(len(tested), 1),
        low=low,
        high=high,
        spread=spread,
        se=float(np.median(own.ses)),
        signal=None if reason else signal(own.values, own.ses),
        reason=reason,
    )
