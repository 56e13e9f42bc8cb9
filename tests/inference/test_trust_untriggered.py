"""A trigger is right where units that were never exposed do not differ."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.results.analysis import Result
from abeval.results.trust import Check
from tests.worlds.experiments import define_experiment
from tests.worlds.triggered import World, analyze_world


def untriggered(world: World, seed: int = 1) -> tuple[Check, str]:
    result = analyze_world(world, seed)
    check = next(check for check in result.trust if check.name == "untriggered")
    return check, result.verdicts[0].decision


def test_a_sound_trigger_passes_with_a_strong_effect() -> None:
    check, decision = untriggered(World(lift=1.0, shown=0.3))
    assert (check.status, decision) == ("pass", "ship")
    assert "show no difference" in check.message


@pytest.mark.parametrize(
    ("world", "named"),
    [
        (World(hurt=-0.3), "clicks_per_user of b"),
        (World(wider=1.4), "share of units not exposed"),
        (World(heavier=True), "clicks_per_user of b"),
    ],
)
def test_a_broken_trigger_stops_the_verdict(world: World, named: str) -> None:
    check, decision = untriggered(world)
    assert (check.status, decision) == ("fail", "do_not_trust")
    assert named in check.message


def ramped(exposed_b: float = 1.0) -> Result:
    """From 10 % to 50 % on day 5, in users of whom late ones are exposed less often."""
    rng, users, days = np.random.default_rng(3), np.arange(6_000), 14
    came = np.minimum(rng.geometric(0.25, len(users)) - 1, days - 1)
    variant = np.where(rng.random(len(users)) < np.where(came < 5, 0.1, 0.5), "b", "a")
    chance = np.where(came < 5, 0.75, 0.45) * np.where(variant == "b", exposed_b, 1.0)
    exposed = rng.random(len(users)) < chance
    user = np.repeat(users, 1 + rng.poisson(5, len(users)))
    start = pd.Timestamp("2026-01-05")
    arrival = start + pd.to_timedelta(came, unit="D")
    hours = 1 + rng.random(len(user)) * (24 * (days - came[user]) - 1)
    hours = np.where(np.diff(user, prepend=-1) > 0, 1.0, hours)
    log = pd.DataFrame(
        {
            "user_id": user,
            "variant": variant[user],
            "ts": arrival[user] + pd.to_timedelta(hours, unit="h"),
            "click": (rng.random(len(user)) < 0.2).astype(int),
        }
    )
    exposures = pd.DataFrame({"user_id": users, "variant": variant, "ts": arrival})[exposed]
    splits = [("2026-01-05", 0.1), ("2026-01-10", 0.5)]
    experiment = define_experiment(
        variants={"a": {"weight": 0.5}, "b": {"weight": 0.5}},
        period={"start": "2026-01-05", "end": "2026-01-19"},
        logs={"impressions": {}, "exposures": {}},
        assignment={"splits": [{"from": d, "weights": {"a": 1 - b, "b": b}} for d, b in splits]},
        metrics=[{"name": "clicks_per_user", "role": "goal"}],
        cleaning={"duplicates": "unchecked"},
        trust={"aa_runs": 0},
    )
    return experiment.analyze(logs={"impressions": log, "exposures": exposures})


def test_a_ramp_is_compared_within_its_splits() -> None:
    names = ("untriggered", "set_aside_by_variant")
    sound, broken = (
        {check.name: check.status for check in result.trust if check.name in names}
        for result in (ramped(), ramped(exposed_b=0.7))
    )
    assert sound == dict.fromkeys(names, "pass")
    assert broken == dict.fromkeys(names, "fail")


def test_without_units_that_were_never_exposed_it_is_skipped() -> None:
    check, _ = untriggered(World(rate=100.0, users=1_000))
    assert check.status == "skipped"


def test_a_metric_without_a_value_among_unexposed_units_is_left_out() -> None:
    users = np.arange(400)
    variant, exposed = np.where(users % 2, "a", "b"), users < 200
    click = (exposed & (users % 3 == 0)).astype(int)
    log = pd.DataFrame({"user_id": users, "variant": variant, "click": click, "dwell": 9.0 * click})
    logs = {"impressions": log, "exposures": log.loc[exposed, ["user_id", "variant"]]}
    metrics = [{"name": "clicks_per_user"}, {"name": "dwell_per_click", "role": "goal"}]
    entries = {"unit": "user_id", "control": "a", "variants": {"a": {}, "b": {}}}
    experiment = abeval.define(
        name="quiet", logs={"impressions": {}, "exposures": {}}, metrics=metrics, **entries
    )
    result = experiment.analyze(logs=logs)
    check = next(check for check in result.trust if check.name == "untriggered")
    assert (check.status, check.value) == ("pass", 1.0)
