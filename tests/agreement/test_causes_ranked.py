"""Ranked lists: choosing the top and clipped scores are no other fault."""

import numpy as np
import pandas as pd
import pytest

from abeval.results.agreement import Agreement
from tests.worlds.ranked import (
    Log,
    World,
    agreement_of,
    drawn,
    lists,
    logged,
    named_world,
    pools,
)

SEED = 3


def agreement(name: str) -> Agreement:
    world = named_world(name)
    return agreement_of(world, drawn(world, SEED))


@pytest.mark.first_cases(1)
@pytest.mark.whole
@pytest.mark.parametrize(
    "name", ["much better, no bias, few columns", "better, no bias", "worse, bias"]
)
def test_nothing_is_named_where_offline_and_online_agree(name: str) -> None:
    said = agreement(name)
    assert said.explanations[0].standing == "agree"
    assert said.confirmed_causes == ()
    # The columns say that the model ranks one surface alone, but it ranks both: no fault of lists.
    is_declared_wrong = "columns" not in name
    last = said.explanations[0].sentences[-1]
    assert last == "There is no gap to explain." or is_declared_wrong
    assert not any(cause.remedy for cause in said.causes)


@pytest.mark.whole
def test_a_gap_of_chosen_tops_has_no_cause() -> None:
    """The range of the score that chose is narrow, so equal models differ offline."""
    said = agreement("equal, no bias")
    assert said.explanations[0].standing == "offline only"
    assert said.confirmed_causes == ()
    assert said.explanations[0].sentences[-1].endswith("None explains the gap.")


@pytest.mark.whole
def test_position_is_named_where_it_hides_a_better_candidate() -> None:
    said = agreement("better, steep")
    assert said.explanations[0].standing == "conflict"
    assert [cause.name for cause in said.confirmed_causes] == ["position"]
    assert said.confirmed_causes[0].accounts_for == 1


@pytest.mark.whole
def test_a_fault_that_explains_little_is_not_the_cause_of_the_gap() -> None:
    """Of 3 % of the variant's rows the served score is another, which costs hardly any AUC."""
    world = named_world("equal, no bias")
    log = drawn(world, SEED)
    rng = np.random.default_rng(SEED)
    rows = log.impressions
    wrong = (rows["variant"] == "treatment") & (rng.random(len(rows)) < 0.03)
    rows.loc[wrong, "served_score"] = rng.permutation(rows.loc[wrong, "served_score"])
    said = agreement_of(world, log)
    assert said.explanations[0].standing == "offline only"
    assert "explains the gap" in said.explanations[0].sentences[-1]
    cause = said["served_score"]
    assert (cause.status, cause.remedy) == ("not found", "")
    assert cause.p_adjusted is not None
    assert cause.p_adjusted < 0.05
    assert cause.accounts_for is not None
    assert cause.accounts_for < 0.25


def plain(log: Log) -> pd.DataFrame:
    """The variant's rows that did not time out."""
    rows = log.impressions
    return rows[(rows["variant"] == "treatment") & (rows["timeout"] == 0)]


def clipped(world: World, share: float) -> tuple[Log, float]:
    """A log whose candidate's scores stop at a cap when they are served; the rows at the cap."""
    rng = np.random.default_rng([SEED, 27])
    known = pools(world, rng, 800)
    best = np.sort(known.candidate, axis=1)[:, -10:]
    capped = np.minimum(known.candidate, np.quantile(best, 1 - share))
    log = logged(world, known, lists(world, known._replace(candidate=capped), rng), rng)
    own = plain(log)
    return log, float((own["served_score"] < own["score_candidate"]).mean())


@pytest.mark.first_cases(1)
@pytest.mark.whole
@pytest.mark.parametrize("share", [0.2, 0.9])
def test_clipped_scores_stop_at_a_cap_and_are_no_other_fault(share: float) -> None:
    world = World("clipped", candidate=0.9, columns=False)
    log, at_cap = clipped(world, share)
    said = agreement_of(world, log)
    stop = plain(log)["served_score"].max()
    expected = f"served scores stop at {stop:.4g} in {at_cap:.1%} of the variant's rows"
    assert expected in said["served_score"].message
    assert said["half_precision"].status == "not found"
    assert said["leakage"].status == "cannot be checked"
    assert {cause.name for cause in said.confirmed_causes} <= {"served_score"}
    assert "32 bits" not in " ".join(said.explanations[0].sentences)


@pytest.mark.slow
@pytest.mark.whole
def test_the_rows_served_with_another_score_are_counted_one_by_one() -> None:
    """The wrong ones are at the top of the lists, so that the means of positions differ."""
    world = World("boosted", candidate=0.9, columns=False)
    log = drawn(world, SEED)
    rows = log.impressions
    wrong = (rows["variant"] == "treatment") & (rows["position"] <= 3)
    wrong &= np.random.default_rng(SEED).random(len(rows)) < 0.8
    rows.loc[wrong, "served_score"] *= 0.7
    share = wrong[plain(log).index].mean()
    message = agreement_of(world, log)["served_score"].message
    assert f"{share:.1%} of the variant's rows were served with another score" in message


@pytest.mark.whole
def test_stale_models_need_no_served_score() -> None:
    said = agreement("not launched, bias")
    assert said["stale_model"].status == "not found"
    assert said["served_score"].status == "cannot be checked"
