"""The winner's curse is said where a test finds an effect that it has little power for."""

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.results.analysis import Result


def analysed(lift: float, units: int = 4_000, seed: int = 0, **inference: object) -> Result:
    random = np.random.default_rng(seed)
    variant = np.where(np.arange(units) % 2 == 0, "a", "b")
    mean = np.where(variant == "b", 1 + lift, 1.0)
    noise = random.normal(0, 1, units)
    for name in ("a", "b"):
        noise[variant == name] -= noise[variant == name].mean()
    table = pd.DataFrame({"id": np.arange(units), "variant": variant, "spent": mean + noise})
    loaded = abeval.define(
        ".",
        name="curse",
        unit="id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"units": {}},
        metrics=[{"name": "spent", "direction": "increase", "role": "goal"}],
        inference=inference,
    )
    return loaded.analyze(logs={"units": table})


def curses(result: Result) -> list[str]:
    return [note for note in result.notes if note.startswith("Winner's curse")]


def test_a_goal_that_is_significant_by_little_is_likely_smaller_than_it_seems() -> None:
    result = analysed(0.07)
    assert result["spent"].status == "better"
    (note,) = curses(result)
    # z = 2.21: power .60; estimates that are significant are 1.29 times the truth on average.
    z = np.random.default_rng(1).normal(0.07 / np.sqrt(2 / 2_000), 1, 200_000)
    significant = z[np.abs(z) > 1.96]
    assert f"find it in {len(significant) / len(z):.0%}" in note
    over = float(note.split("overstate it ")[1].split(" times")[0])
    assert over == pytest.approx(np.abs(significant).mean() / 2.2136, abs=0.01)


@pytest.mark.parametrize("lift", [0.0, 0.15])
def test_a_sure_effect_and_none_have_no_curse(lift: float) -> None:
    assert curses(analysed(lift)) == []
