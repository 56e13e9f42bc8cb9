"""A difference of ratios in two parts: they sum to it, and their errors are those of the units."""

from __future__ import annotations

import numpy as np
import pytest

from abeval.stats import composition
from abeval.stats.moments import Moments
from abeval.stats.records import Refusal

Sums = np.ndarray
"""Numerators and denominators of units in each part, shape (2, units, parts)."""


def units_of(seed: int, units: int, ratios: tuple[float, ...], shares: tuple[float, ...]) -> Sums:
    """Units with impressions in several parts, some of them in none of a part."""
    rng = np.random.default_rng(seed)
    below = rng.poisson(np.outer(rng.gamma(2.0, 3.0, units), shares))
    ready = rng.beta(8, 8, (units, 1)) * 2
    above = rng.binomial(below, np.clip(ready * ratios, 0, 1))
    return np.array([above, below], dtype=float)


CONTROL = units_of(1, 400, (0.1, 0.3, 0.2), (0.5, 0.3, 0.2))
TREATMENT = units_of(2, 500, (0.13, 0.28, 0.2), (0.3, 0.5, 0.2))


def totals(sums: Sums) -> composition.Totals:
    return composition.Totals(*sums.sum(axis=1))


def both_orders(control: Sums, treatment: Sums) -> tuple[float, float]:
    """Change the ratios first, then the shares; and the other way; and take the mean."""
    (a, c), (b, d) = control.sum(axis=1), treatment.sum(axis=1)
    before, after, old, new = a / c, b / d, c / c.sum(), d / d.sum()
    within = (old @ (after - before) + new @ (after - before)) / 2
    moved = ((new - old) @ before + (new - old) @ after) / 2
    return within, moved


def test_the_parts_are_the_mean_over_both_orders_and_sum_to_the_whole() -> None:
    found = composition.parts(totals(CONTROL), totals(TREATMENT))
    assert (found.within, found.mix) == pytest.approx(both_orders(CONTROL, TREATMENT), abs=1e-14)
    assert found.within + found.mix == pytest.approx(found.difference, abs=1e-14)
    first, second = composition.divide_totals(totals(CONTROL), totals(TREATMENT))
    assert found.difference == pytest.approx(second - first, abs=1e-15)


def test_the_errors_are_those_of_leaving_each_unit_out() -> None:
    """The jackknife over units knows the covariance between the parts of a unit."""
    sizes = CONTROL.shape[1], TREATMENT.shape[1]
    of_arms = composition.gradients(totals(CONTROL), totals(TREATMENT), sizes)
    whole = composition.parts(totals(CONTROL), totals(TREATMENT))
    for place, part in enumerate(("within", "mix")):
        influences = [
            Moments.of(sums[0] @ own.numerator + sums[1] @ own.denominator)
            for sums, own in zip(
                (CONTROL, TREATMENT), (getattr(one, part) for one in of_arms), strict=True
            )
        ]
        assert [abs(float(one.mean[0])) < 1e-14 for one in influences] == [True, True]
        effect = composition.effect(getattr(whole, part), *influences)
        left = [
            [both_orders(np.delete(CONTROL, i, 1), TREATMENT)[place] for i in range(sizes[0])],
            [both_orders(CONTROL, np.delete(TREATMENT, i, 1))[place] for i in range(sizes[1])],
        ]
        jackknife = sum((len(one) - 1) ** 2 / len(one) * np.var(one, ddof=1) for one in left)
        assert effect.se == pytest.approx(float(np.sqrt(jackknife)), rel=0.01)
        # As if the parts of a unit were independent, the error would be another.
        apart = sum(
            np.var(sums[0] * g.numerator + sums[1] * g.denominator, axis=0, ddof=1).sum() / n
            for sums, g, n in zip(
                (CONTROL, TREATMENT), (getattr(one, part) for one in of_arms), sizes, strict=True
            )
        )
        assert abs(float(np.sqrt(apart)) / effect.se - 1) > 0.05


def test_what_only_one_variant_has_is_mix_alone() -> None:
    found = composition.parts(
        composition.Totals([5, 0], [50, 0]), composition.Totals([5, 40], [50, 50])
    )
    assert found.within == 0
    assert found.mix == pytest.approx(found.difference)
    first, _ = composition.gradients(
        composition.Totals([5, 9], [50, 9]), composition.Totals([5, 0], [50, 0]), (20, 20)
    )
    assert first.within.numerator[1] == 0


@pytest.mark.parametrize(
    ("control", "reason"),
    [
        (([1.0], [0.0]), "zero_denominator"),
        (([1.0], [-1.0]), "not_applicable"),
        (([np.nan], [1.0]), "not_finite"),
    ],
)
def test_sums_without_parts_are_refused(
    control: tuple[list[float], list[float]], reason: str
) -> None:
    with pytest.raises(Refusal) as refused:
        composition.parts(composition.Totals(*control), composition.Totals([1.0], [2.0]))
    assert refused.value.reason == reason


def test_a_part_of_either_variant_alone_is_in_no_gradient_within() -> None:
    """In the same way for what only control has, and for what only the treatment has."""
    alone, both = composition.Totals([5, 9], [50, 9]), composition.Totals([5, 0], [50, 0])
    for control, treatment, place in ((alone, both, 0), (both, alone, 1)):
        split = composition.parts(control, treatment)
        assert split.within == 0
        assert split.mix == pytest.approx(split.difference)
        of_arms = composition.gradients(control, treatment, (20, 20))
        assert of_arms[place].within.numerator[1] == 0
        assert of_arms[place].within.numerator[0] != 0


def test_an_effect_has_the_level_of_the_others_where_none_is_named() -> None:
    arms = Moments.of([1, -1, 1, -1]), Moments.of([2, -2, 2, -2])
    assert composition.effect(0.1, *arms) == composition.effect(0.1, *arms, alpha=0.05)
    with pytest.raises(Refusal) as refused:
        composition.effect(0.1, Moments.of([1, 1]), Moments.of([2, 2]))
    assert refused.value.reason == "zero_variance"


def test_the_unit_of_the_denominator_does_not_matter() -> None:
    """Hours, of which every part has less than one."""
    small = [
        composition.Totals(*(sums * [[[1.0]], [[1e-4]]]).sum(axis=1))
        for sums in (CONTROL, TREATMENT)
    ]
    assert np.max(small[0].denominator) < 1
    large = totals(CONTROL), totals(TREATMENT)
    assert composition.parts(*small) == pytest.approx(
        np.multiply(composition.parts(*large), 1e4), rel=1e-9
    )
    for one, other in zip(
        composition.gradients(*small, (400, 500)),
        composition.gradients(*large, (400, 500)),
        strict=True,
    ):
        for part, same in ((one.within, other.within), (one.mix, other.mix)):
            assert part.numerator == pytest.approx(same.numerator * 1e4, rel=1e-9)
            assert part.denominator == pytest.approx(same.denominator * 1e8, rel=1e-9)
