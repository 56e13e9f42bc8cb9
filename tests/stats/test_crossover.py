import numpy as np
import pytest
from reference_vectors import vector

from abeval.stats.crossover import Identities, false_lift, mean_after_exclusion
from abeval.stats.records import Refusal


def kinds() -> list[Identities]:
    i = vector("crossover_exclusion_bias").inputs
    one = Identities(1 - i["share_two_device"], 1, i["mean_one"])
    return [one, Identities(i["share_two_device"], 2, i["mean_two"])]


def test_vector_crossover_exclusion_bias() -> None:
    v = vector("crossover_exclusion_bias")
    c, t = v.inputs["split_control"], v.inputs["split_treatment"]
    control, treatment = mean_after_exclusion(c, kinds()), mean_after_exclusion(t, kinds())
    assert control == pytest.approx(v.expected["mean_control"], abs=v.tol)
    assert treatment == pytest.approx(v.expected["mean_treatment"], abs=v.tol)
    assert false_lift(c, t, kinds()) == pytest.approx(v.expected["false_lift"], abs=v.tol)
    even = mean_after_exclusion(0.5, kinds())
    assert even == pytest.approx(v.expected["even_split_mean_both"], abs=v.tol)
    assert false_lift(0.5, 0.5, kinds()) == v.expected["even_split_false_lift"]


def test_d14_exclusion_biases_an_uneven_a_a_test() -> None:
    rng = np.random.default_rng(1)
    n = 400_000
    two = rng.random(n) < 0.2
    value = np.where(two, 3.0, 1.0)
    first, second = rng.random(n) < 0.1, rng.random(n) < 0.1
    crossed = two & (first != second)
    means = [value[~crossed & (first == arm)].mean() for arm in (False, True)]
    assert means[0] == pytest.approx(mean_after_exclusion(0.9, kinds()), rel=0.01)
    assert means[1] == pytest.approx(mean_after_exclusion(0.1, kinds()), rel=0.01)
    assert means[1] / means[0] - 1 < -0.2


def test_degenerate_splits_are_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        mean_after_exclusion(0.0, kinds())
    assert refusal.value.reason == "too_few_units"
    with pytest.raises(Refusal) as refusal:
        false_lift(0.9, 0.1, [Identities(1.0, 1, 0.0)])
    assert refusal.value.reason == "control_near_zero"
