"""The metrics of an experiment: the built-in ones, and those that its file defines or changes.

`pipeline.py`, `api/` and `cli/sql.py` take their metrics from here and hand them to the steps of
a run; `consistency.py` checks the file's names by the built-in ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from abeval.errors import ExperimentError
from abeval.experiment.metrics import event_metric, is_sum_of_impressions, summed, table_covariates
from abeval.experiment.model import Experiment
from abeval.experiment.problems import suggestion
from abeval.experiment.sections import AbsoluteMargin, MetricChoice, Toward
from abeval.experiment.sources import Covariate
from abeval.metrics.builtin import builtin_metrics
from abeval.metrics.definition import (
    DECREASE,
    FUNCTION,
    INCREASE,
    QUANTILE,
    UNIT_DAY,
    Direction,
    Kind,
    Margin,
    Metric,
    Need,
    RowTerm,
    Term,
    UnitTerm,
    own_terms,
)
from abeval.metrics.row_text import columns_of, names_of


def known_metrics(experiment: Experiment) -> dict[str, Metric]:
    """Every built-in metric by name, with the experiment's thresholds; none of a table of units."""
    if experiment.of_units:
        return {}
    return builtin_metrics(experiment.clicks.long_seconds, experiment.sessions.gap_minutes)


def chosen_metrics(experiment: Experiment) -> tuple[Metric, ...]:
    """The metrics of the scorecard in the order of the file, with its roles and margins.

    A file that lists none gets every built-in metric, CTR as the goal.
    """
    known = known_metrics(experiment)
    if not experiment.metrics:
        return tuple(
            replace(metric, covariates=tuple(_of_table(experiment, metric)))
            for metric in known.values()
        )
    of_unit = experiment.of_units
    known |= {
        choice.name: _since_exposure(number, choice)
        if choice.of_events
        else _own(choice, of_unit=of_unit)
        for number, choice in enumerate(experiment.metrics)
        if choice.is_own and choice.function is None
    }
    functions = {
        c.name: _function(c.name, c.function, known)
        for c in experiment.metrics
        if c.function is not None
    }
    known |= functions
    return tuple(_chosen(c, known, _covariates(experiment, c, known)) for c in experiment.metrics)


def named_metrics(experiment: Experiment, names: Sequence[str] | None = None) -> Sequence[Metric]:
    """The metrics with these names, built-in ones too; without names, those of the scorecard.

    Raises:
        ExperimentError: There is no such metric.
    """
    chosen = chosen_metrics(experiment)
    if not names:
        return chosen
    known = known_metrics(experiment) | {metric.name: metric for metric in chosen}
    for name in names:
        if name not in known:
            raise ExperimentError(f"no metric is called {name!r}{suggestion(name, known)}")
    return [known[name] for name in names]


def _since_exposure(number: int, choice: MetricChoice) -> Metric:
    if is_sum_of_impressions(choice):
        return summed(choice, partial(_own, of_unit=False))
    return event_metric(number, choice, _NEEDED_BY)


def _function(name: str, text: str, known: Mapping[str, Metric]) -> Metric:
    """The user's own function of means and ratios."""
    parts = tuple(known[part] for part in names_of(text))
    needs = frozenset(need for part in parts for need in part.needs)
    return Metric(
        name,
        "function",
        text,
        role="goal",
        source=FUNCTION,
        function=text,
        parts=parts,
        needs=needs,
    )


def _covariates(
    experiment: Experiment, choice: MetricChoice, known: Mapping[str, Metric]
) -> list[Term]:
    """What is known of a unit before: sums of the pre-period, or columns of a table of units."""
    units = experiment.logs.units
    if not experiment.of_units or units is None:
        of_metrics = [term for name in choice.covariates or () for term in own_terms(known[name])]
        return [*of_metrics, *_of_table(experiment, known[choice.name])]
    if not known[choice.name].is_mean_or_ratio or experiment.inference.adjust == "none":
        return []
    every = table_covariates(experiment)
    if choice.covariates is not None:
        resolutions = {covariate.value: covariate.resolution for covariate in every}
        every = [
            Covariate(value=name, resolution=resolutions.get(name, choice.resolution))
            for name in choice.covariates
        ]
    return [RowTerm(c.value, c.resolution, c.resolution, of_unit=True) for c in every]


def _of_table(experiment: Experiment, metric: Metric) -> list[Term]:
    """Covariates from the table of units beside the impressions, for all means and ratios."""
    table = experiment.unit_table
    adjusts = experiment.inference.adjust in ("cuped", "regression")
    if table is None or not adjusts or not metric.is_mean_or_ratio:
        return []
    every = table_covariates(experiment)
    return [UnitTerm(covariate.value, covariate.resolution) for covariate in every]


def _chosen(choice: MetricChoice, known: Mapping[str, Metric], covariates: list[Term]) -> Metric:
    metric = known[choice.name]
    own = own_terms(metric)
    return replace(
        metric,
        role=choice.role or metric.role,
        direction=_direction(choice, metric.direction),
        unit=metric.unit if choice.unit is None else choice.unit,
        covariates=tuple(term for term in dict.fromkeys(covariates) if term not in own),
        margin=_margin(choice),
        cap=choice.cap,
    )


def _own(choice: MetricChoice, *, of_unit: bool) -> Metric:
    """The user's own metric: a mean of `value` per unit, or `numerator` over `denominator`.

    With `of_unit` its expressions are over a row that is a unit.
    """
    if choice.value is not None:
        value, per, formula = choice.value, None, f"Σ {choice.value} / units"
    else:
        value, per = str(choice.numerator), str(choice.denominator)
        formula = f"Σ {value} / Σ {per}"
    step = choice.resolution
    term = RowTerm(value, step, step, of_unit=of_unit)
    under = None if per is None else RowTerm(per, step, step, of_unit=of_unit)
    rows = "units" if of_unit else "impressions"
    kind: Kind = "mean" if under is None else "ratio"
    if choice.quantile is not None:
        kind, formula = (
            "quantile",
            f"{choice.quantile:g} quantile of {choice.value} over {rows}",
        )
    read = {c for text in (value, per) if text is not None for c in columns_of(text)}
    canonical = () if of_unit else read & _NEEDED_BY.keys()
    needs = frozenset(_NEEDED_BY[column] for column in canonical)
    texts = [text for text in dict.fromkeys((value, per)) if text is not None]
    no_numbers = tuple((_no_number(text, rows), _not_numbers(text, of_unit)) for text in texts)
    return Metric(
        choice.name,
        kind,
        formula,
        role="goal",
        source=QUANTILE if kind == "quantile" else UNIT_DAY,
        value=term,
        per=under,
        level=choice.quantile,
        needs=needs,
        left_out=no_numbers if kind == "quantile" else (),
        zeros=() if kind == "quantile" else no_numbers,
    )


def _no_number(text: str, rows: str) -> str:
    return f"{rows} whose {text} is null, NaN or infinite"


def _not_numbers(text: str, of_unit: bool) -> Term:
    """Counts rows whose value is not a number: a sum has 0 for them, a quantile nothing."""
    missing = f"case when abs(cast(({text}) as double)) < 1e300 then 0 else 1 end"
    return RowTerm(missing, of_unit=of_unit)


_NEEDED_BY: dict[str, Need] = {
    "click": "click",
    "dwell": "dwell",
    "dwell_ms": "dwell",
    "score": "score",
    "position": "position",
    "category": "category",
    "request_id": "request_id",
    "item_id": "item_id",
}


def _direction(choice: MetricChoice, default: Direction) -> Direction:
    match choice.direction:
        case None:
            return default
        case Toward(toward=value):
            return Direction(toward=value)
        case "increase":
            return INCREASE
        case "decrease":
            return DECREASE


def _margin(choice: MetricChoice) -> Margin | None:
    match choice.margin:
        case None:
            return None
        case AbsoluteMargin(absolute=size):
            return Margin(size, relative=False)
        case float(size):
            return Margin(size, relative=True)
