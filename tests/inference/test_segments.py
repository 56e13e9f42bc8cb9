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


def analysed(cells, metrics=("ctr",)):
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
    return loaded.analyze(logs={"impressions": frame_of(cells)})


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
    assert test.p_value > 0.05
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
    assert test.mix_p_value < 1e-9


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
    assert "all other units together p = 1" in check.message
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
