"""Estimate what past experiments promise of a new one by its offline differences."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from abeval.history.measures import build_measures
from abeval.history.predictions import choose_predictor, estimate_prediction
from abeval.history.report import choose_offline
from abeval.results.history import HistoryRow
from abeval.stats import latent
from abeval.stats.records import Estimate


class Promise(NamedTuple):
    """The expected true lift of a metric, by the best offline predictor of it."""

    lift: Estimate
    predictor: str


def predict_lift(
    rows: Sequence[HistoryRow],
    experiment: str,
    differences: Mapping[str, Estimate],
    target: str,
    alpha: float,
) -> Promise | str:
    """Predict the lift of a metric from a history; words say why nobody can.

    Args:
        rows: Of the history; those of the experiment itself are left out.
        experiment: The name of the new experiment.
        differences: Offline metric → candidate minus baseline on control's traffic.
        target: The online metric.
        alpha: Level at which a predictor must be more than chance, over all that are compared.
    """
    history = build_measures([row for row in rows if row.experiment != experiment])
    online = history.select_side("online")
    goal = next((measure for measure in online if measure.metric == target and measure.sign), None)
    if goal is None:
        return f"the history has no {target} of which more or less is better"
    predictors = {
        measure.metric: measure
        for measure in choose_offline(history, None)
        if measure.sign and measure.metric in differences
    }
    estimates = {name: estimate_prediction(m, goal, alpha) for name, m in predictors.items()}
    fits = {name: fit for name, fit in estimates.items() if fit is not None}
    choice = choose_predictor([*fits.values()], alpha)
    if choice is None:
        return "the history has fewer than 5 experiments with an offline metric of this one"
    best = None if choice.best is None else fits[choice.best]
    if best is None or best.fit is None or best.p_value * choice.predictors > alpha:
        return choice.sentence
    name = best.row.predictor
    difference = differences[name]
    gain = predictors[name].sign * difference.value
    value, se = latent.predict(best.fit, gain, difference.variance**0.5)
    experiments = best.row.experiments
    variance = latent.widen(best.fit, se) ** 2
    lift = Estimate(goal.sign * value, variance, experiments, experiments - 2.0)
    return Promise(lift, name)
