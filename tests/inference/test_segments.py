"""Segments: one effect or several, Simpson's paradox, and where a broken split sits."""

import numpy as np
import pandas as pd
import pytest

import abeval


def frame_of(cells):
    """Impressions of users in cells of (variant, device, users, click probability)."""
    rng = np.random.default_rng(11)
    parts = []
    for variant, device, users, rate in cells:
        shown = 10
        parts.append(
            pd.DataFrame(
                {
                    "user_id": np.repeat([f"{variant}{device}{i}" for i in range(users)], shown),
                    "variant": variant,
                    "device": device,
                    "click": rng.binomial(1, rate, users * shown),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def analysed(log, metrics=("ctr",)):
    loaded = abeval.define(
        name="segments",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        cleaning={"duplicates": "unchecked"},
        segments={"device": "device"},
        logs={"impressions": {}},
        metrics=[{"name": m} if isinstance(m, str) else m for m in metrics],
    )
    if isinstance(log, list):
        log = frame_of(log)
    return loaded.analyze(logs={"impressions": log})


def test_the_same_effect_everywhere_is_one_effect():
    result = analysed(
        [
            ("a", "tv", 900, 0.1),
            ("b", "tv", 900, 0.13),
            ("a", "web", 900, 0.2),
            ("b", "web", 900, 0.23),
        ]
    )
    (test,) = result.segment_tests
    assert (test.metric, test.variant, test.segment, test.cells) == ("ctr", "b", "device", 2)
    # One difference, so two lifts: 30 % where one clicks little, 15 % where one clicks much.
    assert test.scale == "lift"
    assert test.p_value < 0.05 < test.p_value_difference
    assert not test.reversed
    assert test.within + test.mix == pytest.approx(result["ctr"].difference, rel=1e-9)


def test_opposite_effects_are_told_apart():
    result = analysed(
        [
            ("a", "tv", 900, 0.1),
            ("b", "tv", 900, 0.16),
            ("a", "web", 900, 0.2),
            ("b", "web", 900, 0.14),
        ]
    )
    (test,) = result.segment_tests
    assert test.p_adjusted < 1e-6
    assert test.i_squared > 0.9
    signs = {row.cell: np.sign(row.difference) for row in result.segments}
    assert signs == {"tv": 1.0, "web": -1.0}


def test_simpsons_paradox_is_said():
    # Better in each segment, worse overall: the variant got the segment that clicks little.
    result = analysed(
        [
            ("a", "tv", 200, 0.05),
            ("b", "tv", 1000, 0.07),
            ("a", "web", 1000, 0.30),
            ("b", "web", 200, 0.33),
        ]
    )
    (test,) = result.segment_tests
    assert result["ctr"].difference < 0 < test.within
    assert test.reversed
    assert test.reversal_p_value < 0.001
    assert test.mix_p_value < 1e-9


def devices(seed, lift=0.0, users=(1500, 1000, 500), rates=(0.05, 0.15, 0.4)):
    """Users of three devices with unlike click rates, split at random; the same lift for all."""
    random, parts = np.random.default_rng(seed), []
    for device, (n, rate) in enumerate(zip(users, rates, strict=True)):
        treated = random.integers(0, 2, n)
        own = np.clip(random.beta(4 * rate, 4 - 4 * rate, n) * (1 + lift * treated), 0, 1)
        user = np.repeat(np.arange(n), 6)
        parts.append(
            pd.DataFrame(
                {
                    "user_id": 10_000 * device + user,
                    "variant": np.where(treated == 1, "b", "a")[user],
                    "device": f"d{device}",
                    "click": random.binomial(1, own[user]),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


@pytest.mark.slow
def test_no_paradox_is_said_where_nothing_differs():
    """Fifteen A/A tests; of such, one in six said REVERSES when signs alone were compared."""
    tests = [analysed(devices(seed)).segment_tests[0] for seed in range(15)]
    opposite = [test for test in tests if test.within * (test.within + test.mix) < 0]
    assert opposite
    assert not any(test.reversed for test in tests)


def test_one_lift_over_unlike_baselines_is_one_effect():
    result = analysed(devices(3, lift=0.3, users=(6000, 4000, 2000)))
    (test,) = result.segment_tests
    assert test.scale == "lift"
    assert test.p_value_difference < 1e-6
    assert test.p_value > 0.05
    assert all(one.scale == "lift" for one in result.segment_contrasts)
    assert min(one.p_adjusted for one in result.segment_contrasts) > 0.05
    assert all(one.lift_low < 0 < one.lift_high for one in result.segment_contrasts)


def test_values_that_can_be_negative_are_compared_by_differences():
    log = devices(4).assign(profit=lambda x: x.click - 0.2)
    result = analysed(log, metrics=[{"name": "profit", "value": "profit"}])
    (test,) = result.segment_tests
    assert test.scale == "difference"
    assert test.p_value == test.p_value_difference
    assert {one.scale for one in result.segment_contrasts} == {"difference"}


def test_a_mismatch_is_traced_to_its_segment():
    result = analysed(
        [
            ("a", "tv", 1000, 0.1),
            ("b", "tv", 1000, 0.1),
            ("a", "web", 1000, 0.1),
            ("b", "web", 750, 0.1),
        ]
    )
    check = next(c for c in result.trust if c.name == "srm:device")
    assert check.status == "fail"
    assert check.message.startswith("device = 'web' does not match the weights")
    assert "without this cell p = 1" in check.message
    assert result["ctr"].status == "untrusted"


def test_one_cell_is_nothing_to_compare():
    result = analysed([("a", "tv", 300, 0.1), ("b", "tv", 300, 0.1)])
    assert result.segment_tests == ()


def test_a_small_uneven_variant_is_noted():
    cells = [("a", "tv", 900, 0.1), ("b", "tv", 100, 0.1)]
    metrics = ["ctr", {"name": "twice", "function": "2 * ctr", "role": "diagnostic"}]
    (note,) = (n for n in analysed(cells, metrics=metrics).notes if "uneven" in n)
    assert "b and a have uneven numbers of units, and the smaller has 100" in note
    assert "tests of twice reject" in note
    assert not any("uneven" in note for note in analysed(cells).notes)
    even = analysed([("a", "tv", 300, 0.1), ("b", "tv", 300, 0.1)], metrics=metrics).notes
    assert not any("uneven" in note for note in even)


def countries(groups, seed=1):
    """Units of (country, number, values of control, values of treatment), alternately in each."""
    random = np.random.default_rng(seed)
    parts = [
        pd.DataFrame(
            {
                "variant": np.resize(["a", "b"], n),
                "country": name,
                "spent": np.where(np.arange(n) % 2, treatment(random, n), control(random, n)),
            }
        )
        for name, n, control, treatment in groups
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(user_id=np.arange(len(table)), bought=(table.spent > 5).astype(int))


def compared(table):
    return abeval.analyze(
        table,
        unit="user_id",
        variant="variant",
        metrics=["spent", {"name": "bought", "unit": "share"}],
        segments=["country"],
    )


def gamma(mean):
    return lambda random, n: random.gamma(4, mean / 4, n)


def nothing(_, n):
    return np.zeros(n)


@pytest.fixture(scope="module")
def unlike_countries():
    """One lift of 10 % over unlike baselines; a tiny country, and one in which nobody spends."""
    means = {"x": 100, "y": 20, "z": 2}
    three = [(name, 3000, gamma(m), gamma(1.1 * m)) for name, m in means.items()]
    return compared(
        countries([*three, ("tiny", 5, gamma(1), nothing), ("closed", 80, nothing, nothing)])
    )


def test_a_tiny_cell_does_not_change_the_question(unlike_countries):
    test, of_shares = unlike_countries.segment_tests
    assert (test.scale, test.cells, test.cells_left_out) == ("lift", 3, 2)
    assert (of_shares.scale, of_shares.cells_left_out) == ("lift", 5 - of_shares.cells)
    assert test.p_value > 0.01
    assert test.p_value_difference < 1e-9
    assert test.within + test.mix == pytest.approx(unlike_countries["spent"].difference, rel=1e-2)


def test_rows_of_small_cells_keep_their_effect_and_say_why_it_is_not_judged(unlike_countries):
    rows = {row.cell: row for row in unlike_countries.segments if row.metric == "spent"}
    assert (rows["tiny"].reason, rows["closed"].reason) == ("too_few_units", "zero_variance")
    assert rows["tiny"].difference < 0
    assert rows["x"].reason is None


def test_a_cell_that_does_not_vary_leaves_the_others_their_contrasts(unlike_countries):
    contrasts = {
        one.cell: one for one in unlike_countries.segment_contrasts if one.metric == "spent"
    }
    assert sorted(contrasts) == ["x", "y", "z"]
    assert min(one.p_adjusted for one in contrasts.values()) > 0.01


def test_a_cell_in_which_the_variant_has_nothing_is_tested():
    """A broken page in one country: its treatment does not vary, but its control does."""
    sold = [(f"c{i}", 2000, gamma(10), gamma(10)) for i in range(3)]
    result = compared(countries([*sold, ("broken", 200, gamma(10), nothing)]))
    test = result.segment_tests[0]
    assert (test.scale, test.cells) == ("lift", 4)
    assert test.p_adjusted < 1e-9


def test_cells_of_few_units_have_no_test():
    """Of A/A tests over 100 cells of 20 units, a quarter said that the effect differs."""
    table = countries([(f"c{i}", 16, gamma(10), gamma(10)) for i in range(80)])
    result = compared(table)
    assert result.segment_tests == ()
    assert {row.reason for row in result.segments} == {"too_few_units"}
