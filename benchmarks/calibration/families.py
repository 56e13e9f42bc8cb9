"""Calibration of families of tests, of segments, of interleaving and of credible intervals."""

from typing import get_args

import numpy as np

from abeval.stats import (
    bayes,
    dunnett,
    heterogeneity,
    interleaving,
    means,
    multiplicity,
    simpson,
    srm,
    srm_segments,
)
from benchmarks.calibration.logs import STRATA, Split, arms, pool
from benchmarks.calibration.outcome import ALPHA, Outcome, Promise, rate


def segments(seed: int, runs: int, split: Split) -> list[Outcome]:
    """Segments that share one effect (none), and two experiments that do not interact."""
    users = pool(1)
    rng = np.random.default_rng([seed, 16])
    rejected = np.zeros((3, runs), dtype=bool)
    drawn = [arms(rng, users, n, runs) for n in (*split, *split)]
    for run, (control, treatment, other_c, other_t) in enumerate(zip(*drawn, strict=True)):
        c, t = ([m.pick(0) for m in arm.strata] for arm in (control, treatment))
        found = [means.welch(c[k], t[k]) for k in range(STRATA)]
        q = heterogeneity.cochran([e.difference for e in found], [e.se for e in found])
        rest = heterogeneity.segments_against_rest(c, t, means.estimate)[2]
        tt, tc, ct, cc = (
            means.estimate(arm.whole) for arm in (treatment, other_t, control, other_c)
        )
        both = heterogeneity.interaction(tt, tc, ct, cc)
        rejected[:, run] = np.array([q.p_value, rest.p_value, both.effect.p_value]) <= ALPHA
    names = (
        "heterogeneity.cochran",
        "heterogeneity.segments_against_rest",
        "heterogeneity.interaction",
    )
    return [
        Outcome(name, f"{split}, 3 activity strata", "nominal", rate(rejected[i]), None)
        for i, name in enumerate(names)
    ]


def families(seed: int, runs: int, tests: int = 10) -> list[Outcome]:
    """Family-wise error of correlated z tests, and false coverage of the selected."""
    rng = np.random.default_rng([seed, 17])
    methods: tuple[multiplicity.Method, ...] = get_args(multiplicity.Method)
    z = np.sqrt(0.5) * (rng.normal(size=(runs, tests)) + rng.normal(size=(runs, 1)))
    p_values = np.array(
        [[2 * bayes.normal_normal(-abs(x), 1.0).chance_to_beat for x in row] for row in z]
    )
    outcomes: list[Outcome] = []
    for method in methods:
        flags = np.array([multiplicity.adjust(p, method).min() <= ALPHA for p in p_values])
        outcomes.append(
            Outcome(
                f"multiplicity.adjust, {method}",
                f"{tests} correlated metrics, none moves",
                "at_most",
                rate(flags),
                None,
            )
        )
    roles = np.where(np.arange(tests) < 2, 4.0, 1.0)
    flags = np.array([multiplicity.weighted(p, roles).min() <= ALPHA for p in p_values])
    data = f"{tests} correlated metrics, none moves, two goals weigh four times"
    outcomes.append(Outcome("multiplicity.weighted", data, "at_most", rate(flags), None))
    truth = np.where(np.arange(tests) < tests // 2, 0.0, 2.5)
    shares = []
    for row in rng.normal(truth, 1.0, size=(runs, tests)):
        found = multiplicity.fcr(row, np.ones(tests))
        chosen = [(i, x) for i, x in zip(found.intervals, truth, strict=True) if i is not None]
        missed = sum(not i.low <= x <= i.high for i, x in chosen)
        shares.append(missed / max(1, len(chosen)))
    coverage = rate(np.zeros(runs, dtype=bool))._replace(value=1 - float(np.mean(shares)))
    data = f"{tests} metrics, half move"
    return [*outcomes, Outcome("multiplicity.fcr", data, "at_most", None, coverage)]


def many_to_one(seed: int, runs: int, split: Split, treatments: int = 3) -> list[Outcome]:
    """Several treatments against one control, none of which differs."""
    users = pool(1)
    rng = np.random.default_rng([seed, 21])
    control = [arm.whole.pick(0) for arm in arms(rng, users, split.control, runs)]
    others = [
        [arm.whole.pick(0) for arm in arms(rng, users, split.treatment, runs)]
        for _ in range(treatments)
    ]
    rejected = np.zeros(runs, dtype=bool)
    for run, base in enumerate(control):
        found = [means.welch(base, arm[run]) for arm in others]
        variance, df = means.estimate(base).variance, min(e.df for e in found)
        loadings = [np.sqrt(variance) / e.se for e in found]
        p_values = dunnett.p_values([e.p_value for e in found], loadings, df)
        rejected[run] = p_values.min() <= ALPHA
    data = f"{split}, {treatments} treatments"
    return [Outcome("dunnett.p_values", data, "nominal", rate(rejected), None)]


def tables(seed: int, runs: int, strata: int = 4) -> list[Outcome]:
    """Rates within strata of unlike sizes and rates, none of which differs; how units spread."""
    rng = np.random.default_rng([seed, 22])
    sizes, rates = np.geomspace(4000, 200, strata), np.geomspace(0.02, 0.2, strata)
    flags = np.zeros((3, runs), dtype=bool)
    for run in range(runs):
        units = rng.poisson(sizes, size=(2, strata))
        hits = rng.binomial(units, rates)
        found = simpson.mantel_haenszel(np.stack([hits.T, (units - hits).T], axis=2))
        spread = simpson.same_shares(units.astype(float))
        flags[:, run] = np.array([found.p_value, found.homogeneity_p_value, spread]) <= ALPHA
    data = f"{strata} strata of 4,000 down to 200 units a variant"
    names = (
        "simpson.mantel_haenszel",
        "simpson.mantel_haenszel, homogeneity",
        "simpson.same_shares",
    )
    return [Outcome(name, data, "nominal", rate(flags[i]), None) for i, name in enumerate(names)]


def exact_split(seed: int, runs: int, units: int = 300) -> list[Outcome]:
    """The exact test of a split of few units."""
    rng = np.random.default_rng([seed, 23])
    treated = rng.binomial(units, 0.5, size=runs).tolist()
    flags = np.array([srm.exact([units - one, one], [1, 1]) <= ALPHA for one in treated])
    return [Outcome("srm.exact", f"{units} units, 50/50", "at_most", rate(flags), None)]


def small_segments(seed: int, runs: int) -> list[Outcome]:
    """Split by segment, most of them tiny: any segment flagged after Holm."""
    rng = np.random.default_rng([seed, 18])
    weights, names = (0.9, 0.1), [str(i) for i in range(12)]
    flags = np.zeros((2, runs), dtype=bool)
    for run in range(runs):
        units = rng.poisson(np.geomspace(5000, 2, 12))
        treated = rng.binomial(units, weights[1])
        found = srm_segments.by_segment(
            names, np.stack([units - treated, treated], axis=1), weights
        )
        flags[0, run] = min(row.p_adjusted for row in found.segments) <= ALPHA
        flags[1, run] = found.homogeneity.p_value <= ALPHA
    data = "90/10, 12 segments of 5,000 down to 2 units"
    names_promises: tuple[tuple[str, Promise], ...] = (
        ("srm_segments.by_segment, Holm", "at_most"),
        ("srm_segments.by_segment, homogeneity", "nominal"),
    )
    return [
        Outcome(name, data, promise, rate(flags[i]), None)
        for i, (name, promise) in enumerate(names_promises)
    ]


def preferences(seed: int, runs: int, users: int = 400) -> list[Outcome]:
    """Users who prefer neither ranking, and users who prefer one."""
    rng = np.random.default_rng([seed, 19])
    rejected, covered = (np.zeros(runs, dtype=bool) for _ in range(2))
    for run in range(runs):
        a, b, ties = rng.multinomial(users, [0.3, 0.3, 0.4])
        rejected[run] = interleaving.team_draft(int(a), int(b), int(ties)).p_value <= ALPHA
        a, b, ties = rng.multinomial(users, [0.25, 0.35, 0.4])
        found = interleaving.team_draft(int(a), int(b), int(ties))
        # Given the ties, the truth is that of the users who decide.
        covered[run] = found.low <= (0.35 / 0.6 - 0.5) * (a + b) / users <= found.high
    data = f"{users} users, 40 % ties"
    return [Outcome("interleaving.team_draft", data, "at_most", rate(rejected), rate(covered))]


def credible(seed: int, runs: int) -> list[Outcome]:
    """Credible intervals where the prior is what effects are drawn from."""
    rng = np.random.default_rng([seed, 20])
    prior, se = bayes.Prior(0.01, 0.03), 0.02
    effects = rng.normal(prior.mean, prior.sd, runs)
    covered = np.zeros(runs, dtype=bool)
    for run, (effect, noise) in enumerate(zip(effects, rng.normal(0, se, runs), strict=True)):
        found = bayes.normal_normal(float(effect + noise), se, prior)
        covered[run] = found.low <= effect <= found.high
    data = "effects drawn from the prior"
    return [Outcome("bayes.normal_normal", data, "nominal", None, rate(covered))]
