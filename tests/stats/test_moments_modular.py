"""Ten thousand users made by integer arithmetic, through every test of a mean and a ratio."""

import numpy as np
import pytest
from scipy import stats

from abeval.stats import adjustment, effects, means
from abeval.stats.moments import Moments


def users() -> dict[str, np.ndarray]:
    i = np.arange(1, 10_001)
    variant = i % 2
    impressions = 1 + (i * 7919) % 23
    clicks = ((i * 104729) % 997) * (impressions + 1) // (997 * (4 - variant))
    pre_impressions = 1 + (impressions + (i * 31) % 5) % 24
    pre_clicks = ((i * 104729 + (i % 7) * 13) % 997) * (pre_impressions + 1) // (997 * 4)
    return {
        "variant": variant,
        "impressions": impressions,
        "clicks": clicks,
        "pre_impressions": pre_impressions,
        "pre_clicks": pre_clicks,
        "dwell": clicks * 7.5 + ((i * 53) % 17) * 0.25,
        "pre_dwell": pre_clicks * 7.5 + ((i * 59) % 17) * 0.25,
    }


def arms(*columns: str) -> tuple[Moments, Moments]:
    table = users()
    treated = table["variant"] == 1
    data = [table[column] for column in columns]
    return Moments.of(*(d[~treated] for d in data)), Moments.of(*(d[treated] for d in data))


def test_modular_10k_mean() -> None:
    table = users()
    treated = table["variant"] == 1
    e = means.welch(*arms("dwell"))
    y = table["dwell"]
    reference = stats.ttest_ind(y[treated], y[~treated], equal_var=False)
    assert e.statistic == pytest.approx(reference.statistic, rel=1e-9)
    assert e.p_value == pytest.approx(reference.pvalue, rel=1e-9)
    assert (e.low, e.high) == pytest.approx(reference.confidence_interval(), rel=1e-9)


def test_modular_10k_from_integer_sums_equals_from_values() -> None:
    table = users()
    for side in (0, 1):
        chosen = table["variant"] == side
        # Dwell in quarters of a second, as an engine would sum it.
        cols = [(table["dwell"][chosen] * 4).astype(int), table["clicks"][chosen].astype(int)]
        sums = [int(c.sum()) for c in cols]
        products = [[int(a @ b) for b in cols] for a in cols]
        exact = Moments.from_sums(int(chosen.sum()), sums, products, [0.25, 1.0])
        plain = Moments.of(table["dwell"][chosen], table["clicks"][chosen])
        np.testing.assert_allclose(exact.mean, plain.mean, rtol=1e-13)
        np.testing.assert_allclose(exact.comoment, plain.comoment, rtol=1e-11)


def test_modular_10k_ratio_and_cuped() -> None:
    table = users()
    treated = table["variant"] == 1
    y, x = table["clicks"], table["impressions"]
    lines = [
        y[a].sum() / x[a].sum() + (y[a] - y[a].sum() / x[a].sum() * x[a]) / x[a].mean()
        for a in (~treated, treated)
    ]
    reference = stats.ttest_ind(lines[1], lines[0], equal_var=False)
    assert means.delta(*arms("clicks", "impressions")).statistic == pytest.approx(
        reference.statistic, rel=1e-9
    )
    a = adjustment.cuped_ratio(*arms("clicks", "impressions", "pre_clicks", "pre_impressions"))
    assert 0 < a.variance_removed < 1
    raw = a.treatment.value - a.control.value
    assert a.effect.difference == pytest.approx(raw, rel=0.05)


def estimate(found: object) -> tuple[float, ...]:
    names = ("control", "treatment", "effect_size", "pvalue", "statistic")
    ends = ("effect_size_ci_lower", "effect_size_ci_upper")
    relative_ends = ("rel_effect_size_ci_lower", "rel_effect_size_ci_upper")
    return tuple(getattr(found, name) for name in (*names, *ends, *relative_ends))


def test_modular_10k_agrees_with_tea_tasting() -> None:
    tt = pytest.importorskip("tea_tasting")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(users())
    experiment = tt.Experiment(
        mean=tt.Mean("dwell"),
        ratio=tt.RatioOfMeans("clicks", "impressions"),
        mean_cuped=tt.Mean("dwell", "pre_dwell"),
        ratio_cuped=tt.RatioOfMeans("clicks", "impressions", "pre_clicks"),
    )
    reference = experiment.analyze(frame, control=0)
    control, treatment = map(means.estimate_mean, arms("dwell"))
    e = means.effects.compare(control, treatment)
    log = effects.log_delta(control, treatment)
    mine = (e.control, e.treatment, e.difference, e.p_value, e.statistic, e.low, e.high)
    assert (*mine, log.low, log.high) == pytest.approx(estimate(reference["mean"]), rel=1e-9)
    # A ratio has the degrees of freedom of the units that count, so its p-value is not theirs.
    e = means.delta(*arms("clicks", "impressions"))
    ratio = (e.control, e.treatment, e.difference, e.statistic)
    theirs = estimate(reference["ratio"])
    assert ratio == pytest.approx((*theirs[:3], theirs[4]), rel=1e-9)
    adjusted = {
        "mean_cuped": adjustment.cuped_mean(*arms("dwell", "pre_dwell")),
        "ratio_cuped": adjustment.cuped_ratio(*arms("clicks", "impressions", "pre_clicks")),
    }
    for name, a in adjusted.items():
        e = a.effect
        mine = (e.control, e.treatment, e.difference, e.statistic, e.p_value, e.low, e.high)
        theirs = estimate(reference[name])
        theirs = (*theirs[:3], theirs[4], theirs[3], *theirs[5:7])
        compared = 7 if name == "mean_cuped" else 4
        assert mine[:compared] == pytest.approx(theirs[:compared], rel=1e-9)
