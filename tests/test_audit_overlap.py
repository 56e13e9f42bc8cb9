"""`abeval audit` on experiments that share units: do their effects add up?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abeval.report.terminal import as_text
from tests.cli.test_cli import call
from tests.worlds.overlap import UNITS, drawn, drawn_skewed, shop


def test_effects_that_multiply_do_not_interact() -> None:
    frame, other = drawn(0.0)
    result = shop().audit(logs={"units": frame}, others={"banner": other})
    assert [(row.metric, row.segment) for row in result.interactions] == [
        ("spend", "banner"),
        ("visits", "banner"),
    ]
    assert min(row.p_adjusted for row in result.interactions) > 0.01
    assert "no interaction: effects on spend and visits do not differ" in as_text(result)


def test_an_effect_that_another_test_takes_away_is_found() -> None:
    frame, other = drawn(-0.2)
    result = shop().audit(logs={"units": frame}, others={"banner": other})
    row = result.interactions[0]
    assert row.p_adjusted < 0.001
    # Where the other test has its last variant: 20 % less than elsewhere, by sign.
    sign = 1 if row.cell == "new" else -1
    assert row.lift_low < np.exp(sign * np.log(0.8)) - 1 < row.lift_high
    text = " ".join(as_text(result).split())
    assert f"INTERACTION: where banner has {row.cell}, the effect of treatment on spend" in text


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_rare_and_skewed_amounts_in_small_cells_claim_nothing(seed: int) -> None:
    ids = np.array([f"u{i}" for i in range(20_000)])
    shares = {"control": {"weight": 0.95}, "treatment": {"weight": 0.05}}
    spend = [{"name": "spend", "role": "goal"}]
    frame, other = drawn_skewed(seed, ids)
    result = shop(variants=shares, metrics=spend).audit(
        logs={"units": frame}, others={"banner": other}
    )
    assert result.interactions == ()
    cells = {row.cell: row for row in result.untested}
    assert cells["new"].units < 100 < cells["new"].units_needed
    text = " ".join(as_text(result).split())
    assert "not tested: spend is too skewed" in text
    assert "no interaction" not in text


def test_units_that_are_not_in_the_other_test_are_left_out() -> None:
    frame, other = drawn(0.0)
    # Outside of it the effect is another one: that is no interaction.
    outside = np.arange(len(UNITS)) < 3_000
    frame.loc[outside & (frame.variant == "treatment"), "spend"] *= 2
    result = shop().audit(logs={"units": frame}, others={"banner": other[~outside]})
    assert {row.cell for row in result.interactions} <= {"new", "old"}
    assert min(row.p_adjusted for row in result.interactions) > 0.01


def test_p_values_are_adjusted_over_all_other_tests() -> None:
    frame, other = drawn(-0.03)
    alone = shop().audit(logs={"units": frame}, others={"banner": other})
    more = {f"b{i}": other.sample(frac=1, random_state=i).set_axis(UNITS) for i in range(5)}
    among = shop().audit(logs={"units": frame}, others={"banner": other, **more})
    (first,) = (
        row for row in among.interactions if (row.segment, row.metric) == ("banner", "spend")
    )
    assert len(among.interactions) == 12
    assert first.p_value == pytest.approx(alone.interactions[0].p_value)
    assert first.p_adjusted > alone.interactions[0].p_adjusted


def test_experiments_of_clusters_have_no_interactions() -> None:
    frame, other = drawn(-0.3)
    frame["store"] = frame.index // 20
    frame["variant"] = np.where(frame.store % 2, "treatment", "control")
    design = {"cluster": "store"}
    result = shop(design=design).audit(logs={"units": frame}, others={"banner": other})
    assert result.interactions == ()


def test_the_command_says_it_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, other = drawn(-0.2)
    frame.to_parquet(tmp_path / "units.parquet")
    other.rename_axis("unit").rename("variant").reset_index().to_csv(
        tmp_path / "b.csv", index=False
    )
    (tmp_path / "e.toml").write_text(
        'name = "shop"\nunit = "user"\ncontrol = "control"\n[variants.control]\n'
        '[variants.treatment]\n[logs.units]\npath = "units.parquet"\n'
        '[[metrics]]\nname = "spend"\nrole = "goal"\n'
    )
    assert (
        call(monkeypatch, "audit", tmp_path / "e.toml", "--against", f"banner={tmp_path / 'b.csv'}")
        == 0
    )
    assert "INTERACTION: where banner has" in " ".join(capsys.readouterr().out.split())
