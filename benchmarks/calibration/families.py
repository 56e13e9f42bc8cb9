"""Calibration of families of tests, and of segments."""

from typing import get_args

import numpy as np

from abeval.stats import (
    composition,
    heterogeneity,
    means,
    multiplicity,
    srm,
)
from abeval.stats.distributions import compute_p_value
from abeval.stats.records import Estimate
from benchmarks.calibration.outcome import ALPHA, Outcome, Promise, nominal, outcomes
from tests.worlds.users import STRATA, Split, arms, pool


def segments(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Segments with one effect or one lift, and two experiments without an interaction."""
    users = pool(1)
    rng = np.random.default_rng([seed, 16])
    rejected = np.zeros((4, runs), dtype=bool)
    drawn = [arms(rng, users, n, runs) for n in split]
    for run, (control, treatment) in enumerate(zip(*drawn, strict=True)):
        c, t = ([m.pick(0) for m in arm.strata] for arm in (control, treatment))
        effects = [means.welch(c[k], t[k]) for k in range(STRATA)]
        columns = ([getattr(e, name) for e in effects] for name in ("difference", "se", "df"))
        q = heterogeneity.cochran(*columns)
        pairs = (c[2], t[2]), (c[0] + c[1], t[0] + t[1])
        first, second = ((means.estimate_mean(a), means.estimate_mean(b)) for a, b in pairs)
        rest = heterogeneity.against_rest(first, second)
        lifted = [_lifted(means.estimate_mean(one), 1.1) for one in t]
        lifts = heterogeneity.lifts([means.estimate_mean(one) for one in c], lifted)
        lift_rest = heterogeneity.lift_against_rest(first, second)
        p_lift = 1.0 if lift_rest is None else lift_rest.p_value
        p_values = (q.p_value, rest.p_value, lifts.p_value, p_lift)
        rejected[:, run] = np.array(p_values) <= ALPHA
    lifted_too = "lifts, all segments +10 %"
    names = ("cochran", "segments_against_rest", lifted_too, "lifts_against_rest")
    tests = nominal(*(f"heterogeneity.{name}" for name in names))
    return outcomes(tests, f"{split}, 3 activity strata", rejected)


def _lifted(estimate: Estimate, ratio: float) -> Estimate:
    value, variance = ratio * estimate.value, ratio**2 * estimate.variance
    return estimate._replace(value=value, variance=variance)


def families(seed: int, runs: int, tests: int = 10) -> list[Outcome]:
    """Measure the family-wise error of correlated z tests."""
    rng = np.random.default_rng([seed, 17])
    methods: tuple[multiplicity.Method, ...] = get_args(multiplicity.Method)
    z = np.sqrt(0.5) * (rng.normal(size=(runs, tests)) + rng.normal(size=(runs, 1)))
    p_values = np.array([[compute_p_value(x) for x in row] for row in z])
    weights = np.where(np.arange(tests) < 2, 4.0, 1.0)
    adjusted = [[multiplicity.adjust(p, method).min() for p in p_values] for method in methods]
    weighted = [multiplicity.adjust_weighted(p, weights).min() for p in p_values]
    names: list[tuple[str, Promise]] = [(f"multiplicity.adjust, {m}", "at_most") for m in methods]
    data = f"{tests} correlated metrics, none moves"
    return [
        *outcomes(names, data, np.array(adjusted) <= ALPHA),
        *outcomes(
            [("multiplicity.weighted", "at_most")],
            f"{data}, two goals weigh four times",
            np.array([weighted]) <= ALPHA,
        ),
    ]


def many_to_one(seed: int, runs: int, split: Split, treatments: int = 3) -> list[Outcome]:
    """Several treatments without an effect, compared with one control."""
    users = pool(1)
    rng = np.random.default_rng([seed, 21])
    control = [arm.whole.pick(0) for arm in arms(rng, users, split.control, runs)]
    others = [
        [arm.whole.pick(0) for arm in arms(rng, users, split.treatment, runs)]
        for _ in range(treatments)
    ]
    rejected = np.zeros(runs, dtype=bool)
    for run, base in enumerate(control):
        effects = [means.welch(base, arm[run]) for arm in others]
        variance, df = means.estimate_mean(base).variance, min(e.df for e in effects)
        loadings = [np.sqrt(variance) / e.se for e in effects]
        p_values = multiplicity.dunnett_p_values([e.p_value for e in effects], loadings, df)
        rejected[run] = p_values.min() <= ALPHA
    data = f"{split}, {treatments} treatments"
    return outcomes(nominal("dunnett.p_values"), data, rejected[None])


def tables(seed: int, runs: int, strata: int = 4) -> list[Outcome]:
    """Measure the test that strata of different sizes have the same shares in two variants."""
    rng = np.random.default_rng([seed, 22])
    sizes = np.geomspace(4000, 200, strata)
    flags = np.zeros((1, runs), dtype=bool)
    for run in range(runs):
        units = rng.poisson(sizes, size=(2, strata))
        flags[0, run] = composition.compare_segment_shares(units.astype(float)) <= ALPHA
    data = f"{strata} strata of 4,000 down to 200 units a variant"
    return outcomes(nominal("simpson.same_shares"), data, flags)


def exact_split(seed: int, runs: int, units: int = 300) -> list[Outcome]:
    """Exact test of the split of a few units."""
    rng = np.random.default_rng([seed, 23])
    treated = rng.binomial(units, 0.5, size=runs).tolist()
    half = np.array([0.5, 0.5])
    p_values = np.array(
        [[srm.compute_split_p_value(np.array([units - n, n]), half) for n in treated]]
    )
    return outcomes([("srm_exact.of_split", "at_most")], f"{units} units, 50/50", p_values <= ALPHA)


def small_segments(seed: int, runs: int) -> list[Outcome]:
    """Split within segments, most of them tiny: any segment rejected after Holm."""
    rng = np.random.default_rng([seed, 18])
    weights, names = (0.9, 0.1), [str(i) for i in range(12)]
    flags = np.zeros((2, runs), dtype=bool)
    for run in range(runs):
        units = rng.poisson(np.geomspace(5000, 2, 12))
        treated = rng.binomial(units, weights[1])
        counts = np.stack([units - treated, treated], axis=1)
        result = srm.check_segments(names, counts, weights)
        flags[0, run] = min(row.p_adjusted for row in result.segments) <= ALPHA
        flags[1, run] = result.homogeneity.p_value <= ALPHA
    tests: tuple[tuple[str, Promise], ...] = (
        ("srm_segments.by_segment, Holm", "at_most"),
        ("srm_segments.by_segment, homogeneity", "nominal"),
    )
    return outcomes(tests, "90/10, 12 segments of 5,000 down to 2 units", flags)


def ramped_segments(seed: int, runs: int) -> list[Outcome]:
    """The same where one percent became half: any segment rejected after Holm."""
    rng = np.random.default_rng([seed, 35])
    weights = [[0.99, 0.01], [0.5, 0.5]]
    sizes = np.outer(np.geomspace(5000, 2, 12), [0.85, 0.15])
    flags = np.zeros((1, runs), dtype=bool)
    for run in range(runs):
        units = rng.poisson(sizes)
        treated = rng.binomial(units, [0.01, 0.5])
        counts = np.stack([units - treated, treated], axis=2)
        p_values = [srm.check_strata(one, weights).p_value for one in counts if one.sum()]
        flags[0, run] = multiplicity.adjust(p_values, "holm").min() <= ALPHA
    data = "1 % then 50 %, 12 segments of 5,000 down to 2 units"
    return outcomes([("srm.stratified, Holm", "at_most")], data, flags)
