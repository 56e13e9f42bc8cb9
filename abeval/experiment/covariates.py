"""What a table of units says of each unit from before the experiment.

`metrics.py` adjusts metrics by it; `aggregates/collect.py` sums it by variant.
"""

from abeval.experiment.model import Experiment
from abeval.experiment.sources import Covariate
from abeval.metrics.definition import Metric, RowTerm, Term, UnitTerm


def table_covariates(experiment: Experiment) -> list[Covariate]:
    """The covariates of `[logs.units]`; none without such a table."""
    units = experiment.logs.units
    listed = [] if units is None else units.covariates
    return [Covariate(value=one) if isinstance(one, str) else one for one in listed]


def covariate_means(experiment: Experiment) -> tuple[Metric, ...]:
    """Each covariate of the table as a mean per unit, whether or not metrics are adjusted by it.

    The term is a covariate of the mean, which has no value of its own.
    """
    every = {covariate.value: covariate.resolution for covariate in table_covariates(experiment)}
    if experiment.of_units:
        for choice in experiment.metrics:
            for name in choice.covariates or ():
                every.setdefault(name, choice.resolution)
    return tuple(
        Metric(name, "mean", f"Σ {name} / units", covariates=(_term(experiment, name, resolution),))
        for name, resolution in every.items()
    )


def _term(experiment: Experiment, text: str, resolution: float) -> Term:
    if experiment.of_units:
        return RowTerm(text, resolution, resolution, of_unit=True)
    return UnitTerm(text, resolution)
