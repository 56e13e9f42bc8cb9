"""Calibration of the tests that need moments only."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abeval.stats import adjustment, decisions, means
from abeval.stats.effects import compare, delta, fieller, fieller_adjusted, log_delta
from abeval.stats.records import Adjusted, Bools, Effect, Estimate, Lift
from benchmarks.calibration.outcome import ALPHA, Outcome, Promise, nominal, outcomes
from tests.worlds.users import Arm, Pool, Split, arms, pool

LIFT = 0.2
"""True lift of the click rate in A/B experiments."""


class Truth(NamedTuple):
    """True effects in the population.

    Attributes:
        mean: Difference of clicks per user.
        ratio: Difference of click rates.
        mean_lift: Lift of clicks per user.
        ratio_lift: Lift of the click rate.
    """

    mean: float
    ratio: float
    mean_lift: float
    ratio_lift: float


class Decision(NamedTuple):
    """Whether a test rejected, and whether its interval contained the truth."""

    rejected: bool
    covered: bool


class Study(NamedTuple):
    """A test to calibrate; it promises its nominal error rate."""

    name: str
    test: Callable[[Arm, Arm, Truth], Decision]


def truth(control: Pool, treatment: Pool) -> Truth:
    """True effects between two populations.

    Example:
        >>> same = pool(1, users=1000)
        >>> truth(same, same)
        Truth(mean=0.0, ratio=0.0, mean_lift=0.0, ratio_lift=0.0)
    """
    c, t = control.values.mean(axis=0), treatment.values.mean(axis=0)
    rate_c, rate_t = c[0] / c[1], t[0] / t[1]
    effects = (t[0] - c[0], rate_t - rate_c, t[0] / c[0] - 1, rate_t / rate_c - 1)
    return Truth(*map(float, effects))


def _difference(effect: Effect, true: float) -> Decision:
    return Decision(effect.p_value <= ALPHA, effect.low <= true <= effect.high)


def _lift(lift: Lift, true: float) -> Decision:
    return Decision(not lift.low <= 0 <= lift.high, lift.low <= true <= lift.high)


def _mean_cuped(c: Arm, t: Arm, true: Truth) -> Decision:
    adjusted = adjustment.cuped_mean(c.whole.pick(0, 2), t.whole.pick(0, 2))
    return _difference(adjusted.effect, true.mean)


def _mean_cuped_lift(c: Arm, t: Arm, true: Truth) -> Decision:
    adjusted = adjustment.cuped_mean(c.whole.pick(0, 2, 3), t.whole.pick(0, 2, 3))
    return _lift(fieller_adjusted(adjusted), true.mean_lift)


def _ratio_cuped(c: Arm, t: Arm, true: Truth) -> Decision:
    return _difference(adjustment.cuped_ratio(c.whole, t.whole).effect, true.ratio)


def _ratio_cuped_lift(c: Arm, t: Arm, true: Truth) -> Decision:
    return _lift(fieller_adjusted(adjustment.cuped_ratio(c.whole, t.whole)), true.ratio_lift)


def _lin_moments(c: Arm, t: Arm, true: Truth) -> Decision:
    adjusted = adjustment.lin_mean(c.whole.pick(0, 2), t.whole.pick(0, 2))
    return _difference(adjusted.effect, true.mean)


def _lin_ratio(c: Arm, t: Arm, true: Truth) -> Decision:
    adjusted = adjustment.lin_ratio(c.whole.pick(0, 1, 2), t.whole.pick(0, 1, 2))
    return _difference(adjusted.effect, true.ratio)


def _stratified_mean(method: Callable[..., Adjusted]) -> Callable[..., Decision]:
    def test(c: Arm, t: Arm, true: Truth) -> Decision:
        control, treatment = ([m.pick(0) for m in arm.strata] for arm in (c, t))
        return _difference(method(control, treatment).effect, true.mean)

    return test


def _stratified_ratio(method: Callable[..., Adjusted]) -> Callable[..., Decision]:
    def test(c: Arm, t: Arm, true: Truth) -> Decision:
        control, treatment = ([m.pick(0, 1) for m in arm.strata] for arm in (c, t))
        return _difference(method(control, treatment).effect, true.ratio)

    return test


def _ratio_lift(method: Callable[..., Lift]) -> Callable[..., Decision]:
    def test(c: Arm, t: Arm, true: Truth) -> Decision:
        lift = method(means.estimate_ratio(c.whole), means.estimate_ratio(t.whole))
        return _lift(lift, true.ratio_lift)

    return test


def _mean_fieller(c: Arm, t: Arm, true: Truth) -> Decision:
    lift = fieller(means.estimate_mean(c.whole), means.estimate_mean(t.whole))
    return _lift(lift, true.mean_lift)


STUDIES: Sequence[Study] = (
    Study("means.welch", lambda c, t, x: _difference(means.welch(c.whole, t.whole), x.mean)),
    Study("ratios.delta", lambda c, t, x: _difference(means.delta(c.whole, t.whole), x.ratio)),
    Study("relative.fieller, mean", _mean_fieller),
    Study("relative.fieller, ratio", _ratio_lift(fieller)),
    Study("relative.log_delta, ratio", _ratio_lift(log_delta)),
    Study("relative.delta, ratio", _ratio_lift(delta)),
    Study("cuped.mean", _mean_cuped),
    Study("cuped.ratio_with", _ratio_cuped),
    Study("relative.fieller_adjusted, CUPED mean", _mean_cuped_lift),
    Study("relative.fieller_adjusted, CUPED ratio", _ratio_cuped_lift),
    Study("regression.lin_moments", _lin_moments),
    Study("regression.lin_ratio_moments", _lin_ratio),
    Study("stratification.mean_random", _stratified_mean(adjustment.stratified_mean)),
    Study("stratification.ratio_random", _stratified_ratio(adjustment.stratified_ratio)),
)


def effects(seed: int, runs: int, split: Split) -> list[Outcome]:
    """False positives in A/A and coverage in A/B experiments, of all `STUDIES`."""
    same, better = pool(1), pool(1, LIFT)
    null = _decisions(np.random.default_rng([seed, 1]), same, same, runs, split)
    effect = _decisions(np.random.default_rng([seed, 2]), same, better, runs, split)
    tests = nominal(*(study.name for study in STUDIES))
    return outcomes(tests, f"{split}", null[:, 0], effect[:, 1])


def _decisions(
    rng: np.random.Generator, control: Pool, treatment: Pool, runs: int, split: Split
) -> Bools:
    """Whether rejected and whether covered, shape (studies, 2, runs)."""
    true = truth(control, treatment)
    flags = np.zeros((len(STUDIES), 2, runs), dtype=bool)
    pairs = zip(
        arms(rng, control, split.control, runs),
        arms(rng, treatment, split.treatment, runs),
        strict=True,
    )
    for run, (c, t) in enumerate(pairs):
        for i, study in enumerate(STUDIES):
            flags[i, :, run] = study.test(c, t, true)
    return flags


def margins(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Claims about an effect that is exactly at the margin, where passing is an error."""
    same, better = pool(1), pool(1, LIFT)
    true = truth(same, better)
    rng = np.random.default_rng([seed, 3])
    passed = np.zeros((len(CLAIMS), runs), dtype=bool)
    drawn = zip(
        arms(rng, same, split.control, runs),
        arms(rng, same, split.treatment, runs),
        arms(rng, better, split.treatment, runs),
        strict=True,
    )
    for run, trio in enumerate(drawn):
        control, null, higher = (means.estimate_ratio(arm.whole) for arm in trio)
        passed[:, run] = _claims(control, null, higher, true)
    return outcomes(CLAIMS, f"{split}, truth at the margin", passed)


CLAIMS: Sequence[tuple[str, Promise]] = (
    ("decisions.conclusive, increase", "nominal"),
    ("decisions.not_worse", "nominal"),
    ("decisions.not_worse_relative", "nominal"),
    ("decisions.equivalent, difference", "at_most"),
    ("decisions.equivalent, lift", "at_most"),
)


def _claims(control: Estimate, same: Estimate, higher: Estimate, true: Truth) -> list[bool]:
    """Each claim one-sided at alpha, so by an interval at twice of it."""
    null, more = (compare(control, arm, 2 * ALPHA) for arm in (same, higher))
    proven = decisions.conclusive(null.p_value, (null.low, null.high), 2 * ALPHA)
    # More clicks count as harm below, and the true effect is the margin.
    lift = fieller(control, higher, 2 * ALPHA)
    loss = decisions.gain((more.low, more.high), "decrease")
    share = decisions.gain((lift.low, lift.high), "decrease")
    variance = control.variance
    return [
        proven and null.difference > 0,
        decisions.not_worse(loss, true.ratio),
        decisions.not_worse_relative(more, variance, -variance, true.ratio_lift, "decrease"),
        decisions.equivalent(loss, true.ratio),
        decisions.equivalent(share, true.ratio_lift),
    ]
