"""`abeval audit`, and the check of every run: are logged variants those of the rule?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.assignment import Assignment
from abeval.cli.main import main
from abeval.errors import ExperimentError
from abeval.results.analysis import Result
from tests.assignment.schemes import SETTINGS, scheme

EVEN = {"control": 1.0, "treatment": 1.0}
UNITS = np.array([f"user-{i}" for i in range(12_000)])


def log(
    variants: list[str | None] | np.ndarray, flips: float = 0.0, since: str = "2026-03-01"
) -> pd.DataFrame:
    """One impression a unit; a share of units that came since a day is in the other variant."""
    random = np.random.default_rng(0)
    day = pd.Timestamp("2026-03-01") + pd.to_timedelta(random.integers(0, 10, len(UNITS)), unit="D")
    rows = pd.DataFrame({"user": UNITS, "variant": variants, "ts": day})
    rows = rows.dropna(subset="variant")
    flip = (random.random(len(rows)) < flips) & (rows.ts >= since)
    other = {"control": "treatment", "treatment": "control"}
    rows.loc[flip, "variant"] = rows.loc[flip, "variant"].map(other)
    return rows.assign(click=random.integers(0, 2, len(rows)))


def experiment(**assignment: Any) -> abeval.LoadedExperiment:
    return abeval.define(
        name="exp",
        unit="user",
        control="control",
        variants={name: {"weight": weight} for name, weight in EVEN.items()},
        assignment=assignment,
        logs={"impressions": {}},
        metrics=[{"name": "ctr"}],
        trust={"aa_runs": 0},
        engine={"threads": 1},
    )


def check(result: Result, name: str = "assignment") -> tuple[str, float | None]:
    (own,) = (check for check in result.trust if check.name == name)
    return own.status, own.value


@pytest.mark.first_cases(4)
@pytest.mark.whole
@pytest.mark.parametrize("name", SETTINGS)
def test_flipped_units_are_found_under_every_scheme(name: str) -> None:
    rows = log(scheme(name).rule(EVEN).variants(UNITS), flips=0.01)
    own = experiment(scheme=SETTINGS[name])
    result = own.audit(logs={"impressions": rows})
    assert result.units == len(rows)
    assert result.rate == pytest.approx(0.01, abs=0.004)
    assert (result.low or 0) < (result.rate or 0) < (result.high or 0)
    cells = {(cell.logged, cell.expected): cell.units for cell in result.matrix}
    moved = cells["control", "treatment"] + cells["treatment", "control"]
    assert len(cells) == 4
    assert moved == result.mismatches
    assert check(own.analyze(logs={"impressions": rows})) == (
        "warn" if result.rate < 0.01 else "fail",  # type: ignore[operator]
        result.rate,
    )


@pytest.mark.whole
def test_a_log_that_agrees_passes_and_has_no_since() -> None:
    own = experiment(salt="exp")
    rows = log(Assignment("exp", EVEN).assign_many(UNITS).variant.to_numpy())
    result = own.audit(logs={"impressions": rows})
    assert (result.mismatches, result.since, result.scheme) == (0, None, "abeval")
    assert (result.uniformity or 0) > 0.001
    assert check(own.analyze(logs={"impressions": rows})) == ("pass", 0.0)


def test_a_log_that_another_salt_assigned_is_not_trusted() -> None:
    rows = log(Assignment("another", EVEN).assign_many(UNITS).variant.to_numpy())
    result = experiment(salt="exp").analyze(logs={"impressions": rows})
    status, share = check(result)
    assert status == "fail"
    assert share == pytest.approx(0.5, abs=0.03)
    assert result.verdicts[0].decision == "do_not_trust"


def test_the_day_on_which_the_assignment_broke_is_named() -> None:
    variants = Assignment("exp", EVEN).assign_many(UNITS).variant.to_numpy()
    broken = log(variants, flips=0.1, since="2026-03-07")
    assert experiment(salt="exp").audit(logs={"impressions": broken}).since == "2026-03-07"
    even = log(variants, flips=0.05)
    assert experiment(salt="exp").audit(logs={"impressions": even}).since is None


def test_units_outside_traffic_layer_and_holdout_are_mismatches_with_a_null() -> None:
    rows = log(Assignment("exp", EVEN).assign_many(UNITS).variant.to_numpy())
    rule = {"salt": "exp", "traffic": 0.8, "holdout": {"salt": "hold", "share": 0.1}}
    result = experiment(**rule).audit(logs={"impressions": rows})
    outside = sum(cell.units for cell in result.matrix if cell.expected is None)
    assert outside == result.mismatches
    assert outside / result.units == pytest.approx(1 - 0.8 * 0.9, abs=0.02)


def test_a_log_without_variants_is_placed_by_the_scheme() -> None:
    rule = scheme("eppo").rule(EVEN)
    rows = log(["-"] * len(UNITS)).drop(columns="variant")
    result = experiment(scheme=SETTINGS["eppo"]).analyze(logs={"impressions": rows})
    expected = pd.Series(rule.variants(UNITS)).value_counts()
    assert {v.name: v.units for v in result.experiment.variants} == expected.to_dict()
    assert check(result)[0] == "skipped"
    outside = dict(result.accounting[0].set_aside)["no_variant"]
    assert outside == len(UNITS) - expected.sum()


@pytest.mark.whole
def test_experiments_are_compared_two_by_two() -> None:
    own = experiment(salt="exp")
    rows = log(Assignment("exp", EVEN).assign_many(UNITS).variant.to_numpy())
    same = pd.Series(Assignment("exp", EVEN).assign_many(UNITS).variant.to_numpy(), UNITS)
    other = pd.Series(Assignment("other", EVEN).assign_many(UNITS).variant.to_numpy(), UNITS)
    result = own.audit(logs={"impressions": rows}, others={"same": same, "other": other})
    pairs = {(pair.one, pair.other): pair for pair in result.pairs}
    assert (pairs["exp", "same"].p_adjusted or 0) < 1e-10
    assert (pairs["exp", "other"].p_adjusted or 0) > 0.001
    by_rule = own.audit(logs={"impressions": rows}, others={"next": experiment(salt="next")})
    assert (by_rule.pairs[0].p_adjusted or 0) > 0.001


def test_there_must_be_something_to_audit_by() -> None:
    own = abeval.define(
        name="exp",
        unit="user",
        control="control",
        variants={"control": {}, "treatment": {}},
        logs={"impressions": {}},
        metrics=[{"name": "ctr"}],
    )
    with pytest.raises(ExperimentError, match="nothing to audit by"):
        own.audit(logs={"impressions": log(["control"] * len(UNITS))})
    with pytest.raises(ExperimentError, match=r"'other' has no \[assignment\]"):
        own.audit(logs={"impressions": log(["control"] * len(UNITS))}, others={"other": own})


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ({}, "needs a `salt`, the `scheme`"),
        ({"scheme": SETTINGS["eppo"], "traffic": 0.5}, "`traffic`, `layer` and `holdout` are for"),
        ({"salt": "a", "order": ["control"]}, "must name each variant once"),
        ({"salt": "a", "layer": {"salt": "a", "slots": [0, 10]}}, "share a salt"),
        ({"scheme": {"platform": "unleash", "group": "g", "rollout": 120}}, "less than or equal"),
        ({"scheme": {"platform": "nobody"}}, "eppo"),
    ],
)
def test_mistakes_in_the_file(assignment: dict[str, Any], message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        experiment(**assignment)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    variants = Assignment("exp", EVEN).assign_many(UNITS).variant.to_numpy()
    log(variants, flips=0.02).to_csv(tmp_path / "log.csv", index=False)
    other = Assignment("other", EVEN).assign_many(UNITS)[["unit", "variant"]]
    other.to_csv(tmp_path / "other.csv", index=False)
    (tmp_path / "e.toml").write_text(
        'name = "exp"\nunit = "user"\ncontrol = "control"\n[variants.control]\n'
        "[variants.treatment]\n"
        '[assignment]\nsalt = "exp"\n[logs.impressions]\npath = "log.csv"\n'
    )
    files = [str(tmp_path / "e.toml"), "--json", str(tmp_path / "a.json")]
    command = ["abeval", "audit", *files, "--against", f"other={tmp_path / 'other.csv'}"]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert "are in another variant than the rule (abeval) gives" in " ".join(text.split())
    assert "exp   other   p = " in text
    assert '"mismatches"' in (tmp_path / "a.json").read_text()
    monkeypatch.setattr("sys.argv", ["abeval", "audit", files[0], "--against", "other"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "is not NAME=FILE" in capsys.readouterr().err
