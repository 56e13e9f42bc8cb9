"""Which metric predicts which: offline or early against online effects, corrected for noise.

`report.py` hands over measures, and puts predictions and choices into its result.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from abeval.history.measures import Case, Effect, Measure, Measures
from abeval.results.history import Choice, Prediction
from abeval.stats import latent
from abeval.stats.proportions import Count, interval
from abeval.stats.records import Floats, Refusal
from abeval.stats.shrinkage import FEWEST, spreads


class Options(NamedTuple):
    """How a history is read.

    Attributes:
        alpha: Level of intervals.
        shared: Correlation of errors that is assumed where it was not measured.
    """

    alpha: float = 0.05
    shared: float = 0.0


class Paired(NamedTuple):
    """The effects that two measures share, turned so that more is better, shape (pairs,) each.

    Attributes:
        cases: Experiment and variant of each.
        x: Of the predictor.
        x_se: Their standard errors.
        y: Of the target.
        y_se: Their standard errors.
        shared: Correlation of the two errors.
        known: How many of these were measured.
    """

    cases: tuple[Case, ...]
    x: Floats
    x_se: Floats
    y: Floats
    y_se: Floats
    shared: Floats
    known: int

    @property
    def experiments(self) -> int:
        """How many experiments there are."""
        return len({experiment for experiment, _ in self.cases})


class Predicted(NamedTuple):
    """A prediction, and how each case was predicted without its experiment.

    Attributes:
        row: What the report shows.
        p_value: Of no association; 1 with a reason.
        gain: Case → how much smaller the predictor makes the squared error; empty with a reason.
        error: Case → the squared error without the predictor, less the noise.
    """

    row: Prediction
    p_value: float
    gain: Mapping[Case, float]
    error: Mapping[Case, float]


def predicted(
    predictor: Measure, target: Measure, history: Measures, options: Options
) -> Predicted | None:
    """How well one measure predicts another; None if no experiment has both."""
    pairs = _paired(predictor, target, history, options)
    if not pairs.cases:
        return None
    blank = _blank(predictor, target, pairs, options)
    try:
        groups = [experiment for experiment, _ in pairs.cases]
        fitted = latent.fit(*pairs[1:6], groups=groups)
    except Refusal as refusal:
        return Predicted(replace(blank, reason=refusal.reason), 1.0, {}, {})
    return _filled(blank, pairs, fitted, options.alpha)


def _paired(predictor: Measure, target: Measure, history: Measures, options: Options) -> Paired:
    """The cases that have both; early days that reach into the target's are no prediction."""
    cases = [case for case in predictor.effects if case in target.effects]
    if target.side == "late":
        cases = [c for c in cases if _is_before(predictor.effects[c], target.effects[c])]
    x, y = [predictor.effects[c] for c in cases], [target.effects[c] for c in cases]
    keys = [(case, predictor.name, target.name) for case in cases]
    measured = [one for key in keys if (one := history.shared.get(key)) is not None]
    # Measured on few parts each, a single one says little; pooled it is that of all.
    pooled = float(np.mean(measured)) if measured else options.shared
    return Paired(
        tuple(cases),
        predictor.sign * np.array([effect.value for effect in x]),
        np.array([effect.se for effect in x]),
        target.sign * np.array([effect.value for effect in y]),
        np.array([effect.se for effect in y]),
        np.full(len(cases), predictor.sign * target.sign * pooled),
        len(measured),
    )


def _is_before(early: Effect, late: Effect) -> bool:
    return early.end is not None and late.start is not None and early.end < late.start


def _blank(predictor: Measure, target: Measure, pairs: Paired, options: Options) -> Prediction:
    """What can be said without a fit."""
    agree = int(np.sum(np.sign(pairs.x) == np.sign(pairs.y)))
    low, high = interval(Count(agree, len(pairs.x)), options.alpha)
    varies = len(pairs.x) > 2 and np.ptp(pairs.x) > 0 and np.ptp(pairs.y) > 0
    return Prediction(
        predictor=predictor.name,
        target=target.name,
        side=predictor.side,
        experiments=pairs.experiments,
        effects=len(pairs.x),
        naive=float(np.corrcoef(pairs.x, pairs.y)[0, 1]) if varies else None,
        shared=float(pairs.shared.mean()),
        shared_known=pairs.known,
        agree=agree,
        agree_share=agree / len(pairs.x),
        agree_low=low,
        agree_high=high,
        base=float(np.mean(pairs.y > 0)),
        **dict.fromkeys(_FITTED),
    )


_FITTED = (
    *("correlation", "low", "high", "slope", "slope_low", "slope_high"),
    *("step", "chance", "chance_loss", "explained", "quality", "reason"),
)


def _filled(blank: Prediction, pairs: Paired, fitted: latent.Fit, alpha: float) -> Predicted:
    correlation, slope = latent.correlation(fitted, alpha), latent.slope(fitted, alpha)
    step, x_se = float(np.median(np.abs(pairs.x))), float(np.median(pairs.x_se))
    held_out = latent.held_out(fitted)
    error = (pairs.y - held_out.without) ** 2 - pairs.y_se**2
    error *= held_out.precision
    row = replace(
        blank,
        correlation=correlation.value,
        low=correlation.low,
        high=correlation.high,
        slope=slope.value,
        slope_low=_bounded(slope.low),
        slope_high=_bounded(slope.high),
        step=step,
        chance=latent.chance_positive(fitted, step, x_se),
        chance_loss=latent.chance_positive(fitted, -step, x_se),
        explained=_share(float(held_out.gain.sum()), float(error.sum())),
        quality=correlation.value * math.sqrt(signal(pairs.x, pairs.x_se)),
    )
    by_case = (dict(zip(pairs.cases, v.tolist(), strict=True)) for v in (held_out.gain, error))
    return Predicted(row, correlation.p_value, *by_case)


def signal(effects: Floats, ses: Floats) -> float:
    """The share of true effects in the variance of an estimate with a typical error."""
    spread = spreads(effects, ses)
    variance = float(np.sum(spread.weight * spread.variance))
    return variance / (variance + float(np.median(ses)) ** 2)


def _bounded(end: float) -> float | None:
    return end if math.isfinite(end) else None


def _share(gain: float, error: float) -> float | None:
    """At most all; None where the target has no more than its noise, so nothing is to predict."""
    return min(gain / error, 1.0) if error > 0 else None


def chosen(predictions: Sequence[Predicted], alpha: float) -> Choice | None:
    """The best of several predictors of one target, on the experiments that have them all.

    Each experiment is predicted by the one that is best for all others. The sentence says that it
    predicts where its correlation is not zero at `alpha` over the number of predictors.
    """
    fitted = [one for one in predictions if one.gain]
    if not fitted:
        return None
    cases = sorted(set.intersection(*({*one.gain} for one in fitted)))
    experiments = sorted({experiment for experiment, _ in cases})
    if len(experiments) < FEWEST:
        return None
    gain = np.array([[sum_of(one.gain, cases, e) for e in experiments] for one in fitted])
    error = sum(sum_of(fitted[0].error, cases, e) for e in experiments)
    # Without a predictor the gain is 0: it is the choice where all others do harm.
    gain = np.vstack([gain, np.zeros(len(experiments))])
    others = gain.sum(1, keepdims=True) - gain
    picked = others.argmax(0)
    best = int(gain.sum(1).argmax())
    held = float(gain[picked, np.arange(len(experiments))].sum())
    row = fitted[0].row
    choice = Choice(
        target=row.target,
        side=row.side,
        predictors=len(fitted),
        experiments=len(experiments),
        best=None if best == len(fitted) else fitted[best].row.predictor,
        chosen=int(np.sum(picked == best)),
        gain=_share(held, error),
        sentence="",
    )
    return replace(choice, sentence=_sentence(choice, fitted, alpha))


def sum_of(values: Mapping[Case, float], cases: Sequence[Case], experiment: str) -> float:
    """The sum over the variants of one experiment."""
    return sum(values[case] for case in cases if case[0] == experiment)


def _sentence(choice: Choice, fitted: Sequence[Predicted], alpha: float) -> str:
    if choice.best is None:
        words = (
            f"none of {choice.predictors} {choice.side} metrics"
            if choice.predictors > 1
            else (f"the {choice.side} metric {fitted[0].row.predictor} does not")
        )
        verb = " predicts" if choice.predictors > 1 else " predict"
        return f"{words}{verb} {choice.target} better than its own mean does"
    best = next(one for one in fitted if one.row.predictor == choice.best)
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
