"""Units in several variants whose first one the log does not tell: nothing may favour a variant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from abeval.assignment import Assignment
from abeval.results.analysis import Result
from tests.logs.small import analyze, aside

USERS = 20_000
CROSSED = 600


def log_of_users(seed: int, share: float = 0.5, **columns: object) -> pd.DataFrame:
    """An A/A log: users of a tenfold use are seen in both variants."""
    random = np.random.default_rng(seed)
    user = np.arange(USERS)
    own = np.where(random.random(USERS) < share, "a", "b")
    heavy = user < CROSSED
    once = pd.DataFrame({"user_id": user, "variant": own, "spent": random.gamma(2.0, 1.0, USERS)})
    again = once[heavy].assign(variant=np.where(own[heavy] == "a", "b", "a"))
    log = pd.concat([once, again], ignore_index=True)
    log.loc[log.user_id < CROSSED, "spent"] *= 10
    return log.assign(**columns)


SPENT = [{"name": "spent_per_user", "value": "spent"}]
TIES = {
    "no time": {},
    "the same time": {"ts": pd.Timestamp("2024-03-01 10:00")},
    "no time of any of their rows": {"ts": pd.NaT},
}


def crossover(result: Result) -> str:
    return next(check for check in result.trust if check.name == "crossover").message


@pytest.mark.whole
@pytest.mark.parametrize("how", TIES)
def test_ties_are_excluded_and_said(how: str) -> None:
    log = log_of_users(1, **TIES[how])
    found = analyze(log, metrics=SPENT)
    excluded = analyze(log, metrics=SPENT, cleaning={"crossover": "exclude"})
    assert found["spent_per_user"].p_value == excluded["spent_per_user"].p_value
    assert aside(found)["tied_crossover"] == 2 * CROSSED
    assert crossover(found).endswith(
        "they stay with the first variant seen, but 600 have no first one (its time is equal or "
        "missing) and are excluded"
    )


def test_a_row_without_a_time_may_have_been_the_first() -> None:
    day = pd.Timestamp("2024-03-01")
    log = pd.DataFrame(
        [
            (1, "a", day),
            (1, "b", None),
            (2, "b", day),
            (2, "b", None),
            (3, "a", day),
            (4, "b", day),
        ],
        columns=["user_id", "variant", "ts"],
    ).assign(spent=1.0)
    found = analyze(log, metrics=SPENT)
    assert (found["spent_per_user"].units_control, found["spent_per_user"].units) == (1, 2)


WEIGHTED = {"variants": {"a": {"weight": 0.9}, "b": {"weight": 0.1}}}


@pytest.mark.parametrize(
    ("entries", "weights"),
    [(WEIGHTED, {"a": 0.9, "b": 0.1}), ({"assignment": {"salt": "tied"}}, {"a": 1, "b": 1})],
)
def test_ties_are_broken_by_hash_where_variants_are_hashed_or_weighted(
    entries: dict[str, Any], weights: dict[str, float]
) -> None:
    log = log_of_users(2, weights["a"] / sum(weights.values()))
    salt = entries.get("assignment", {}).get("salt", "small")
    hashed = Assignment(salt, weights)
    own = log.drop_duplicates("user_id").set_index("user_id").variant
    tied = pd.Series([hashed.assign(user).variant for user in range(CROSSED)])
    found = analyze(log, metrics=SPENT, **entries)
    in_a = int((own[CROSSED:] == "a").sum() + (tied == "a").sum())
    assert found["spent_per_user"].units_control == in_a
    assert aside(found) == {"used": len(log)}
    assert "600 have no first one (its time is equal or missing) and are placed by hash" in (
        crossover(found)
    )


def test_of_three_weighted_variants_ties_are_excluded() -> None:
    log = log_of_users(3)
    three = {"a": {"weight": 2}, "b": {"weight": 2}, "c": {"weight": 1}}
    log.loc[log.user_id % 5 == 0, "variant"] = "c"
    found = analyze(log, metrics=SPENT, variants=three)
    tied = int((np.arange(CROSSED) % 5 > 0).sum())
    assert aside(found)["tied_crossover"] == 2 * tied
    assert crossover(found).endswith("biases an uneven split")


def test_a_tie_among_exposures_is_one_too() -> None:
    log = log_of_users(4, ts=pd.Timestamp("2024-03-01 10:00"), row=np.arange(USERS + CROSSED))
    exposures = log[["user_id", "variant"]].assign(ts=pd.Timestamp("2024-03-01 09:00"))
    found = analyze(log.drop(columns="variant"), metrics=SPENT, exposures=exposures)
    assert "600 have no first one" in crossover(found)
    assert aside(found)["tied_crossover"] == 2 * CROSSED
    exposures.loc[exposures.index < USERS, "ts"] -= pd.Timedelta("1s")
    found = analyze(log.drop(columns="variant"), metrics=SPENT, exposures=exposures)
    assert aside(found) == {"used": len(log)}


@pytest.mark.whole
def test_an_aa_log_without_times_stays_one() -> None:
    """Of heavy users, alphabetical order would put all into one variant."""
    p_values = []
    for seed in range(16):
        found = analyze(log_of_users(100 + seed), metrics=SPENT, trust={"aa_runs": 0})
        assert not any(check.status == "fail" for check in found.trust)
        p_values.append(found["spent_per_user"].p_value)
    assert sum(p < 0.05 for p in p_values) <= 4
    assert min(p_values) > 1e-4
