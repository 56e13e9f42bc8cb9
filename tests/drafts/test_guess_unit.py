"""The unit of a draft is what was randomised: the coarsest id of which each has one variant."""

from __future__ import annotations

import tomllib

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.drafts.guess import Guess

START = pd.Timestamp("2026-09-14")
IDS = ("user_id", "device_id", "session_id", "query_id")


def visits(
    randomised: str, treated: float = 0.5, seed: int = 1, users: int = 500, days: int = 14
) -> pd.DataFrame:
    """Visits of people with several devices, who live together, in which they search."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), rng.poisson(3, users) + 1)
    sessions = pd.DataFrame({"user_id": user, "household_id": user // 3})
    sessions["device_id"] = sessions.user_id * 2 + (rng.random(len(user)) < 0.4)
    sessions["session_id"] = np.arange(len(user))
    sessions["ts"] = START + pd.to_timedelta(rng.integers(0, days * 86_400, len(user)), unit="s")
    queries = sessions.loc[np.repeat(sessions.index, rng.poisson(1, len(user)) + 1)]
    queries = queries.reset_index(drop=True).assign(query_id=lambda f: np.arange(len(f)))
    log = queries.loc[np.repeat(queries.index, 4)].reset_index(drop=True)
    values = log[randomised].unique()
    arm = pd.Series(np.where(rng.random(len(values)) < treated, "treatment", "control"), values)
    log["variant"] = log[randomised].map(arm)
    log["doc_id"], log["position"] = (
        rng.integers(0, 300, len(log)),
        np.tile([1, 2, 3, 4], len(queries)),
    )
    log["click"] = (rng.random(len(log)) < 0.2).astype(int)
    return log.astype(dict.fromkeys(IDS, str))


def guesses(log: pd.DataFrame) -> dict[str, Guess]:
    return {guess.entry: guess for guess in abeval.draft(log).guesses}


def column(guess: Guess) -> str | None:
    return guess.column and guess.column.name


@pytest.mark.parametrize("randomised", IDS)
@pytest.mark.parametrize("treated", [0.5, 0.3])
def test_the_unit_is_the_coarsest_id_with_one_variant(randomised: str, treated: float) -> None:
    found = guesses(visits(randomised, treated).drop(columns="household_id"))
    assert (column(found["unit"]), column(found["variant"])) == (randomised, "variant")
    assert found["variant"].certainty == "sure"


@pytest.mark.parametrize("randomised", IDS)
def test_other_columns_do_not_hide_it(randomised: str) -> None:
    log = visits(randomised)[[*IDS[: IDS.index(randomised) + 1], "variant", "ts", "click"]]
    assert column(guesses(log)["unit"]) == randomised


def test_a_person_is_asked_where_chance_may_be_why_people_have_one_variant() -> None:
    """Of 10 % treated sessions, most people have none."""
    draft = abeval.draft(visits("session_id", 0.1).drop(columns=["household_id", "device_id"]))
    assert column({g.entry: g for g in draft.guesses}["unit"]) == "session_id"
    assert any(
        q.startswith("unit: was session_id randomised, or user_id?") for q in draft.questions
    )


def test_people_who_live_together_may_be_what_was_randomised() -> None:
    assert column(guesses(visits("household_id"))["unit"]) == "household_id"


@pytest.mark.parametrize("randomised", ["user_id", "session_id"])
def test_a_time_before_in_which_all_are_in_control_says_nothing(randomised: str) -> None:
    log = visits(randomised, days=28).drop(columns="household_id")
    log.loc[log.ts < START + pd.Timedelta(days=14), "variant"] = "control"
    assert column(guesses(log)["unit"]) == randomised


@pytest.mark.parametrize("share", [0.02, 0.14, 0.25, 0.5])
def test_a_column_called_variant_is_the_variant_however_many_cross(share: float) -> None:
    log = visits("user_id")[["user_id", "variant", "ts", "doc_id", "click"]]
    crossing = log.user_id.isin(log.user_id.drop_duplicates().sample(frac=share, random_state=1))
    later = crossing & (log.index % 2 == 1)
    log.loc[later, "variant"] = np.where(log.variant[later] == "control", "treatment", "control")
    draft = abeval.draft(log)
    found = {guess.entry: guess for guess in draft.guesses}
    assert column(found["variant"]) == "variant"
    assert any(q.startswith("variant: is it variant?") for q in draft.questions) == (share > 0.1)
    assert set(tomllib.loads(draft.text)["variants"]) == {"control", "treatment"}


def test_a_column_called_variant_is_no_segment() -> None:
    log = visits("user_id").assign(group=lambda f: f.variant, variant=lambda f: f.query_id.str[-1])
    log["variant"] = log.variant.map(lambda digit: "a" if digit < "5" else "b")
    segments = [column(g) for g in abeval.draft(log).guesses if g.entry == "segment"]
    assert "variant" not in segments
