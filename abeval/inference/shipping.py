"""How often an experiment ends in ship: its goals, guardrails, family and looks, simulated.

Estimates are drawn from their joint normal distribution and judged by the rule of `verdict.py`.
`power.py` finds the size at which that is as often as wanted.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from abeval.experiment.sections import Family
from abeval.stats.records import Bools, Floats

DRAWS = 20_000
"""Simulated experiments; their error is at most .35 points."""

Critical = Callable[[float], Sequence[float]]
"""The critical |z| at each look of a test at a two-sided level."""


class Rule(NamedTuple):
    """What a decision goes by.

    Attributes:
        alpha: Two-sided level.
        family: Correction over goals × variants.
        weights: Of each goal, for the weighted family.
        critical: Critical values.
        fractions: Information at each look over that at the end, which is the last.
    """

    alpha: float
    family: Family
    weights: Sequence[float]
    critical: Critical
    fractions: Sequence[float] = (1.0,)


class Claims(NamedTuple):
    """The metrics of a decision at one size, in standard errors of their estimates at the end.

    Attributes:
        goals: True gain of each goal.
        margins: Margin of each guardrail, none of which moves.
        variants: Variants beside control; no other than the first differs from it.
    """

    goals: Sequence[float]
    margins: Sequence[float]
    variants: int = 1


class Odds(NamedTuple):
    """How often an experiment ends in each decision, the first that a look brings."""

    ship: float
    stop: float


def draws(correlation: Floats, variants: int, shared: float, looks: int, seed: int = 0) -> Floats:
    """Standard normal steps of the estimates, shape (looks, DRAWS, variants, metrics).

    Args:
        correlation: Of the metrics, goals first, each in its good direction.
        variants: Variants beside control.
        shared: Correlation of two variants' effects on one metric, by the control they share.
        looks: Looks.
        seed: Of the draws.
    """
    size = len(correlation)
    between = np.full((variants, variants), shared) + (1 - shared) * np.eye(variants)
    joint = np.kron(between, correlation)
    values, vectors = np.linalg.eigh(joint)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = np.random.default_rng(seed).standard_normal((looks, DRAWS, variants * size))
    return np.asarray((normal @ root.T).reshape(looks, DRAWS, variants, size))


def odds(claims: Claims, rule: Rule, steps: Floats) -> Odds:
    """How often the first variant is shipped, and how often it is stopped.

    Args:
        claims: Its metrics.
        rule: How it is judged.
        steps: As of `draws`.
    """
    fractions = np.asarray(rule.fractions)
    paths = np.cumsum(steps * np.sqrt(np.diff(fractions, prepend=0.0))[:, None, None, None], axis=0)
    goals, variants = len(claims.goals), claims.variants
    shipped = np.zeros(DRAWS, dtype=bool)
    stopped = np.zeros(DRAWS, dtype=bool)
    for look, fraction in enumerate(fractions):
        z = paths[look] / np.sqrt(fraction)
        z[:, 0, :goals] += np.asarray(claims.goals) * np.sqrt(fraction)
        proven = _family(np.abs(z[:, :, :goals]).reshape(DRAWS, variants * goals), rule, look)
        own = proven[:, :goals]
        better = own & (z[:, 0, :goals] > 0)
        harmed = (own & (z[:, 0, :goals] < 0)).any(axis=1)
        margins = np.asarray(claims.margins) * np.sqrt(fraction)
        held, worse = _guardrails(z[:, 0, goals:], margins, rule, look)
        stop = harmed | worse
        ship = better.any(axis=1) & held & ~stop
        open_still = ~(shipped | stopped)
        shipped |= open_still & ship
        stopped |= open_still & stop
    return Odds(float(shipped.mean()), float(stopped.mean()))


def _guardrails(z: Floats, margins: Floats, rule: Rule, look: int) -> tuple[Bools, Bools]:
    """Whether all guardrails hold, and whether one is worse (Holm over them)."""
    if not z.shape[1]:
        return np.ones(DRAWS, dtype=bool), np.zeros(DRAWS, dtype=bool)
    held = z > rule.critical(rule.alpha)[look] - margins
    family: Family = "none" if rule.family == "none" else "holm"
    proven = _family(np.abs(z), rule._replace(family=family), look)
    better = proven & (z > 0)
    worse = proven & (z < 0) & ~held
    return np.asarray((held | better).all(axis=1)), np.asarray(worse.any(axis=1))


def _family(z: Floats, rule: Rule, look: int) -> Bools:
    """Which tests of a family reject, shape (draws, tests).

    Hommel's procedure rejects at least what Hochberg's does, and Dunnett's what Holm's does at one
    variant; they are simulated as those.
    """
    size, alpha = z.shape[1], rule.alpha
    ranks = np.arange(size)
    match rule.family:
        case "none":
            return np.asarray(z >= rule.critical(alpha)[look])
        case "bonferroni":
            return np.asarray(z >= rule.critical(alpha / size)[look])
        case "weighted":
            weights = np.tile(rule.weights, size // max(len(rule.weights), 1))
            levels = alpha * weights / weights.sum()
            return np.asarray(z >= [rule.critical(float(level))[look] for level in levels])
        case "bh" | "by":
            shrink = 1.0 if rule.family == "bh" else float(np.sum(1 / (ranks + 1)))
            levels = alpha * (ranks + 1) / size / shrink
        case _:
            levels = alpha / (size - ranks)
    order = np.argsort(-z, axis=1)
    limits = [rule.critical(float(level))[look] for level in levels]
    passed = np.take_along_axis(z, order, axis=1) >= limits
    if rule.family in ("holm", "dunnett"):
        rejected = np.logical_and.accumulate(passed, axis=1)
    else:
        rejected = np.logical_or.accumulate(passed[:, ::-1], axis=1)[:, ::-1]
    back = np.empty_like(rejected)
    np.put_along_axis(back, order, rejected, axis=1)
    return back
