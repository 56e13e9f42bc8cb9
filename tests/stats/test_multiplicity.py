import gc
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_vectors import quick, vector
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


@pytest.fixture(scope="module", autouse=True)
def _little_to_collect() -> None:
    """Leave the caches of other tests alone: statsmodels collects at each call of Holm's method."""
    gc.collect()
    gc.freeze()


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


@pytest.mark.whole
def test_the_everyday_methods_do_not_import_statsmodels() -> None:
    code = (
        "import sys; from abeval.stats import multiplicity as m;"
        "[m.adjust([.1, .2], k) for k in ('bonferroni', 'sidak', 'holm', 'bh')];"
        "sys.exit('statsmodels' in sys.modules or 'scipy.stats' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603


def test_levels_of_intervals_reject_what_adjusted_p_values_reject() -> None:
    p = np.random.default_rng(5).random(8) ** 4
    weights = np.arange(1.0, 9.0)
    adjusted = multiplicity.adjust(p, "bonferroni"), multiplicity.adjust_weighted(p, weights)
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
    assert multiplicity.adjust_weighted(p, np.ones(len(p))) == pytest.approx(
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
        (lambda: multiplicity.adjust_weighted([0.1], [0.0]), "not_applicable"),
        (lambda: multiplicity.adjust_weighted([0.1], [float("inf")]), "not_finite"),
    ],
)
def test_refusals(call: Callable[[], object], reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        call()
    assert refused.value.reason == reason


def test_a_test_without_a_share_of_alpha_is_not_rejected() -> None:
    assert multiplicity.adjust_weighted([0.01, 1e-9, 0.9], [1, 0, 1]).tolist() == [0.02, 1.0, 1.0]
    assert multiplicity.adjust_weighted([], []).tolist() == []
    for weights in ([2.0, -1.0], [0.0, 0.0], [1.0]):
        with pytest.raises(Refusal) as refused:
            multiplicity.adjust_weighted([0.1, 0.2], weights)
        assert refused.value.reason == "not_applicable"
