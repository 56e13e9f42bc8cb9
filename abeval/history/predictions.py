"""Predict online effects from offline effects, corrected for noise."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from abeval.history.measures import Case, Measure
from abeval.results.history import Choice, Prediction
from abeval.stats import latent
from abeval.stats.proportions import Count, compute_share_interval
from abeval.stats.records import Floats, Refusal
from abeval.stats.shrinkage import FEWEST, fit_spreads


class FittedPrediction(NamedTuple):
    """A prediction, and how each case was predicted without its experiment.

    `p_value` is the p-value of no association; 1 with a reason. For each case, `gain` is how much
    the predictor reduces the squared error (empty with a reason). `error` is the squared error
    without the predictor, minus the noise. `fit` is None with a reason.
    """

    row: Prediction
    p_value: float
    gain: Mapping[Case, float]
    error: Mapping[Case, float]
    fit: latent.Fit | None = None


def estimate_prediction(
    predictor: Measure, target: Measure, alpha: float
) -> FittedPrediction | None:
    """Estimate how well one metric predicts another; None without overlap.

    Effects are turned so that more is better.
    """
    cases = [case for case in predictor.effects if case in target.effects]
    if not cases:
        return None
    (x, x_se), (y, y_se) = _orient_effects(predictor, cases), _orient_effects(target, cases)
    groups = [experiment for experiment, _ in cases]
    agree = int(np.sum(np.sign(x) == np.sign(y)))
    varies = len(cases) > 2 and np.ptp(x) > 0 and np.ptp(y) > 0
    low, high = compute_share_interval(Count(agree, len(cases)), alpha)
    row = Prediction(
        predictor=predictor.metric,
        target=target.metric,
        experiments=len({*groups}),
        effects=len(cases),
        naive=float(np.corrcoef(x, y)[0, 1]) if varies else None,
        agree=agree,
        agree_share=agree / len(cases),
        agree_low=low,
        agree_high=high,
        base=float(np.mean(y > 0)),
    )
    try:
        fitted = latent.fit(x, x_se, y, y_se, groups)
    except Refusal as refusal:
        return FittedPrediction(replace(row, reason=refusal.reason), 1.0, {}, {})
    correlation = latent.correlation(fitted, alpha)
    slope = latent.slope(fitted, alpha)
    step, typical = float(np.median(np.abs(x))), float(np.median(x_se))
    held_out = latent.held_out(fitted)
    row = replace(
        row,
        correlation=correlation.value,
        low=correlation.low,
        high=correlation.high,
        slope=slope.value,
        slope_low=drop_infinite_end(slope.low),
        slope_high=drop_infinite_end(slope.high),
        step=step,
        chance=latent.chance_positive(fitted, step, typical),
        chance_loss=latent.chance_positive(fitted, -step, typical),
        explained=share_removed(float(held_out.gain.sum()), float(held_out.error.sum())),
        quality=correlation.value * math.sqrt(signal(x, x_se)),
    )
    gains = dict(zip(cases, held_out.gain.tolist(), strict=True))
    errors = dict(zip(cases, held_out.error.tolist(), strict=True))
    return FittedPrediction(row, correlation.p_value, gains, errors, fitted)


def _orient_effects(measure: Measure, cases: Sequence[Case]) -> tuple[Floats, Floats]:
    """Return effects and errors of some cases, oriented so that more is better."""
    pairs = [(measure.effects[case].value, measure.effects[case].se) for case in cases]
    values, ses = np.array(pairs).T
    return measure.sign * values, ses


def signal(effects: Floats, ses: Floats) -> float:
    """Return the share of true variance in the variance of an estimate."""
    variance = fit_spreads(effects, ses).expected_variance
    return variance / (variance + float(np.median(ses)) ** 2)


def drop_infinite_end(end: float) -> float | None:
    """Return the end of an interval; None without a bound."""
    return end if math.isfinite(end) else None


def share_removed(gain: float, error: float) -> float | None:
    """Return gain / error, at most 1; None if the target is all noise."""
    return min(gain / error, 1.0) if error > 0 else None


def choose_predictor(predictions: Sequence[FittedPrediction], alpha: float) -> Choice | None:
    """Choose the best predictor of a target, by cross-validation.

    Each experiment is predicted by the predictor that is best for all others. The sentence says
    that a predictor predicts if its correlation differs from zero at `alpha` divided by the number
    of predictors.
    """
    fitted = [prediction for prediction in predictions if prediction.gain]
    if not fitted:
        return None
    cases = sorted(set.intersection(*({*prediction.gain} for prediction in fitted)))
    experiments, groups = np.unique([name for name, _ in cases], return_inverse=True)
    if len(experiments) < FEWEST:
        return None
    gain = np.array([np.bincount(groups, [p.gain[case] for case in cases]) for p in fitted])
    error = sum(fitted[0].error[case] for case in cases)
    # Without a predictor the gain is 0: it is the choice where all others do harm.
    gain = np.vstack([gain, np.zeros(len(experiments))])
    others_gain = gain.sum(1, keepdims=True) - gain
    # Each experiment is predicted by the choice that the others make.
    choices = others_gain.argmax(0)
    best = int(gain.sum(1).argmax())
    held = float(gain[choices, np.arange(len(experiments))].sum())
    row = fitted[0].row
    choice = Choice(
        target=row.target,
        predictors=len(fitted),
        experiments=len(experiments),
        best=None if best == len(fitted) else fitted[best].row.predictor,
        chosen=int(np.sum(choices == best)),
        gain=share_removed(held, error),
        sentence="",
    )
    return replace(choice, sentence=_describe_choice(choice, fitted, alpha))


def _describe_choice(choice: Choice, fitted: Sequence[FittedPrediction], alpha: float) -> str:
    if choice.best is None:
        who = f"none of {choice.predictors} offline metrics predicts"
        if choice.predictors == 1:
            who = f"the offline metric {fitted[0].row.predictor} does not predict"
        return f"{who} {choice.target} better than its own mean does"
    best = next(prediction for prediction in fitted if prediction.row.predictor == choice.best)
    row = best.row
    if best.p_value * choice.predictors > alpha:
        several = f", the best of {choice.predictors}," if choice.predictors > 1 else ""
        ends = f"[{row.low:.2f}, {row.high:.2f}]"
        return (
            f"whether {choice.best}{several} predicts {choice.target} cannot be told from "
            f"{choice.experiments} experiments: the correlation of true effects is in {ends}"
        )
    stays = f"it is the best without any one of {choice.chosen} of {choice.experiments} experiments"
    gain = "" if choice.gain is None else f", and takes away {choice.gain:.0%} of the squared error"
    after = f"after {choice.best} {row.step:+.2g}, P({choice.target} better) = {row.chance:.0%}"
    return f"{choice.best} predicts {choice.target} best: {stays}{gain}; {after}"
