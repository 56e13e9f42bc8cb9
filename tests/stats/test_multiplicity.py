import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick, vector
from scipy import stats
from statsmodels.stats.multitest import multipletests

from abeval.stats import multiplicity
from abeval.stats.multiplicity import Method
from abeval.stats.records import Refusal

THEIRS = {
    "bonferroni": "bonferroni",
    "sidak": "sidak",
    "holm": "holm",
    "hochberg": "simes-hochberg",
    "hommel": "hommel",
    "bh": "fdr_bh",
    "by": "fdr_by",
}
families = st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.01, 1.0]), min_size=1, max_size=20)


@pytest.mark.parametrize("method", THEIRS)
def test_vector_multiple_testing(method: Method) -> None:
    v = vector("multiple_testing")
    found = multiplicity.adjust(v.inputs["p"], method)
    assert found == pytest.approx(v.expected[THEIRS[method]], abs=v.tol)


@pytest.mark.parametrize("method", THEIRS)
@quick
@given(p=families)
def test_adjusted_p_values_are_statsmodels(method: Method, p: list[float]) -> None:
    with np.errstate(divide="ignore"):  # statsmodels takes log(0) where a p-value is one
        theirs = multipletests(p, method=THEIRS[method])[1] if len(p) > 1 else p
    assert multiplicity.adjust(p, method) == pytest.approx(theirs, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("method", THEIRS)
@quick
@given(p=families)
def test_adjusting_keeps_the_order_and_never_helps(method: Method, p: list[float]) -> None:
    found = multiplicity.adjust(p, method)
    assert np.all(found >= np.asarray(p) - 1e-12)
    assert np.all(found <= 1)
    order = np.argsort(p, kind="stable")
    assert np.all(np.diff(found[order]) >= -1e-12)


@pytest.mark.parametrize("method", THEIRS)
def test_every_p_value_one_and_the_empty_family(method: Method) -> None:
    assert multiplicity.adjust([1.0, 1.0, 1.0], method).tolist() == [1.0, 1.0, 1.0]
    assert multiplicity.adjust([], method).tolist() == []


def test_the_everyday_methods_do_not_import_statsmodels() -> None:
    code = (
        "import sys; from abeval.stats import multiplicity as m;"
        "[m.adjust([.1, .2], k) for k in ('bonferroni', 'sidak', 'holm', 'bh')];"
        "sys.exit('statsmodels' in sys.modules or 'scipy.stats' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603


def test_vector_fcr_intervals() -> None:
    v = vector("fcr_intervals")
    estimates, ses = zip(*v.inputs["estimates"], strict=True)
    found = multiplicity.fcr(estimates, ses, v.inputs["q"])
    assert found.level == pytest.approx(v.expected["level"], abs=v.tol)
    assert list(found.selected) == v.expected["selected"]
    for ours, theirs in zip(found.intervals, v.expected["ci"], strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert tuple(ours) == pytest.approx(theirs, abs=v.tol)


def test_fcr_with_t_is_wider_and_selecting_nothing_gives_no_interval() -> None:
    z = multiplicity.fcr([3.0, 0.1], [1.0, 1.0])
    t = multiplicity.fcr([3.0, 0.1], [1.0, 1.0], df=[30.0, 30.0])
    assert t.intervals[0].high > z.intervals[0].high
    assert t.intervals[0].high == pytest.approx(3 + stats.t.ppf(1 - 0.0125, 30), abs=1e-9)
    assert multiplicity.fcr([0.1, 0.1], [1.0, 1.0]) == (1.0, (False, False), (None, None))


def test_levels_of_intervals_reject_what_adjusted_p_values_reject() -> None:
    p = np.random.default_rng(5).random(8) ** 4
    weights = np.arange(1.0, 9.0)
    adjusted = multiplicity.adjust(p, "bonferroni"), multiplicity.weighted(p, weights)
    levels = (
        multiplicity.interval_levels(p, "bonferroni"),
        multiplicity.interval_levels(p, "weighted", weights=weights),
    )
    for family, of_intervals in zip(adjusted, levels, strict=True):
        assert [q <= 0.05 for q in family] == [
            one <= level for one, level in zip(p, of_intervals, strict=True)
        ]
    for method in ("holm", "hochberg", "hommel"):
        is_open = (p < 0.05) & (multiplicity.adjust(p, method) >= 0.05)
        assert is_open.any()
        found = multiplicity.interval_levels(p, method)
        assert found == [0.05 / 8 if one else None for one in is_open]
        assert (p[is_open] > 0.05 / 8).all()


@quick
@given(p=families)
def test_equal_weights_are_bonferroni(p: list[float]) -> None:
    assert multiplicity.weighted(p, np.ones(len(p))) == pytest.approx(
        multiplicity.adjust(p, "bonferroni"), rel=1e-12
    )


def test_family_wise_error_of_holm_under_the_complete_null() -> None:
    p = np.random.default_rng(8).random((4000, 10))
    errors = np.mean([multiplicity.adjust(row).min() <= 0.05 for row in p])
    assert errors == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / 4000))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: multiplicity.adjust([0.1, float("nan")]), "not_finite"),
        (lambda: multiplicity.adjust([0.1, 1.1]), "not_applicable"),
        (lambda: multiplicity.adjust([0.1, 0.2], "nothing"), "not_applicable"),
        (lambda: multiplicity.adjust([[0.1], [0.2]]), "not_applicable"),
        (lambda: multiplicity.weighted([0.1], [0.0]), "not_applicable"),
        (lambda: multiplicity.weighted([0.1], [float("inf")]), "not_finite"),
        (lambda: multiplicity.fcr([0.1], [0.0]), "zero_variance"),
        (lambda: multiplicity.fcr([float("inf")], [1.0]), "not_finite"),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason


def test_an_effect_at_its_level_is_selected() -> None:
    assert multiplicity.interval_levels([0.025, 0.05], "bh") == [0.05, 0.05]
    assert multiplicity.interval_levels([0.025, 0.051], "bh") == [0.025, None]
    # The level of a family is 5 % where none is named.
    p = [0.01, 0.06, 0.2]
    for method in ("bonferroni", "bh"):
        assert multiplicity.interval_levels(p, method) == multiplicity.interval_levels(
            p, method, 0.05
        )
    effects, errors = [3.0, 2.1, 0.5], [1.0, 1.0, 1.0]
    assert multiplicity.fcr(effects, errors) == multiplicity.fcr(effects, errors, 0.05)


def test_a_test_without_a_share_of_alpha_is_not_rejected() -> None:
    assert multiplicity.weighted([0.01, 1e-9, 0.9], [1, 0, 1]).tolist() == [0.02, 1.0, 1.0]
    assert multiplicity.weighted([], []).tolist() == []
    for weights in ([2.0, -1.0], [0.0, 0.0], [1.0]):
        with pytest.raises(Refusal) as refused:
            multiplicity.weighted([0.1, 0.2], weights)
        assert refused.value.reason == "not_applicable"


def test_selected_effects_with_few_degrees_of_freedom_are_those_of_t() -> None:
    statistics, df = np.array([2.9, -2.4, 0.3]), np.array([6.0, np.inf, 12.0])
    p = 2 * np.where(
        np.isinf(df), stats.norm.sf(np.abs(statistics)), stats.t.sf(np.abs(statistics), df)
    )
    selected = multiplicity.adjust(p, "bh") <= 0.05
    intervals = multiplicity.fcr(statistics, np.ones(3), df=df)
    assert list(intervals.selected) == selected.tolist() == [True, True, False]
    q = 0.05 * 2 / 3
    assert intervals.level == pytest.approx(1 - q)
    assert intervals.intervals[0] is not None
    low, high = stats.t.interval(1 - q, 6, 2.9, 1.0)
    assert tuple(intervals.intervals[0]) == pytest.approx((low, high), rel=1e-9)
