"""Several treatments against one control."""

import numpy as np
import pytest
from reference_vectors import vector
from scipy import stats

from abeval.stats import dunnett
from abeval.stats.records import Refusal


def test_vector_dunnett() -> None:
    v = vector("dunnett")
    arms = [v.inputs["control"], *v.inputs["treatments"]]
    found = dunnett.compare(
        [len(a) for a in arms], [np.mean(a) for a in arms], [np.var(a, ddof=1) for a in arms]
    )
    assert found.statistics == pytest.approx(v.expected["statistic"], abs=1e-9)
    assert found.p_values == pytest.approx(v.expected["p"], abs=v.tol)


def test_dunnett_of_one_treatment_is_students_t() -> None:
    rng = np.random.default_rng(3)
    for n_c, n_t, shift in ((5, 4, 1.0), (40, 12, 2.0), (3, 3, 0.0), (900, 100, 0.6)):
        a, b = rng.normal(size=n_c), rng.normal(shift, size=n_t)
        theirs = stats.ttest_ind(b, a)
        found = dunnett.compare([n_c, n_t], [a.mean(), b.mean()], [a.var(ddof=1), b.var(ddof=1)])
        assert found.p_values[0] == pytest.approx(theirs.pvalue, rel=1e-7)
        assert found.intervals[0] == pytest.approx(theirs.confidence_interval(), abs=1e-7)


def test_dunnett_interval_and_p_value_agree() -> None:
    kwargs = {"units": [50, 50, 50, 50], "variances": [1.0] * 4}
    found = dunnett.compare(means=[0.0, 0.40, 0.48, 0.6], **kwargs)
    for interval, p in zip(found.intervals, found.p_values, strict=True):
        assert (interval.low > 0) == (p < 0.05)
    at_edge = dunnett.compare(means=[0.0, 0.48, 0.48, 0.48], alpha=found.p_values[1], **kwargs)
    assert at_edge.intervals[1].low == pytest.approx(0, abs=1e-9)


def test_adjusting_p_values_is_dunnett_where_variances_are_equal() -> None:
    units = [60, 40, 50]
    found = dunnett.compare(units, [8.25, 8.6, 8.9], [0.9, 1.1, 1.3])
    df = sum(units) - 3
    own = [2 * stats.t.sf(abs(t), df) for t in found.statistics]
    loadings = [np.sqrt(n / (n + units[0])) for n in units[1:]]
    assert dunnett.p_values(own, loadings, df) == pytest.approx(found.p_values, rel=1e-9)
    widths = [i.high - d for i, d in zip(found.intervals, found.differences, strict=True)]
    errors = [d / t for d, t in zip(found.differences, found.statistics, strict=True)]
    critical = stats.t.isf(dunnett.level(0.05, loadings, df) / 2, df)
    assert [w / e for w, e in zip(widths, errors, strict=True)] == pytest.approx([critical] * 2)


def test_adjusted_p_values_lie_between_their_own_and_sidaks() -> None:
    p = np.array([0.001, 0.04, 0.3])
    for loading in (0.0, 0.5, 0.7, 0.95):
        adjusted = dunnett.p_values(p, [loading] * 3)
        assert (adjusted >= p).all()
        assert (adjusted <= 1 - (1 - p) ** 3 + 1e-6).all()
    assert dunnett.p_values([0.03], [0.7])[0] == pytest.approx(0.03, rel=1e-6)
    assert dunnett.p_values([1.0, 0.0], [0.7, 0.7]).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: dunnett.compare([1, 1], [0, 1], [0, 0]), "too_few_units"),
        (lambda: dunnett.compare([5, 5], [0, 1], [0, 0]), "zero_variance"),
        (lambda: dunnett.compare([5], [0], [1]), "not_applicable"),
        (lambda: dunnett.p_values([0.1], [0.5, 0.5]), "not_applicable"),
        (lambda: dunnett.p_values([0.1], [1.5]), "not_applicable"),
    ],
)
def test_refusals(call, reason) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason
