"""A trigger is right where units that were never exposed do not differ."""

from __future__ import annotations

import pytest

from abeval.results.trust import Check
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


def test_without_units_that_were_never_exposed_it_is_skipped() -> None:
    check, _ = untriggered(World(rate=100.0, users=1_000))
    assert check.status == "skipped"
