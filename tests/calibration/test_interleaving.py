"""Preferences of interleaved lists at their level, with the right sign, and biased drafts found."""

from __future__ import annotations

from math import sqrt

import pytest

from benchmarks.calibration import interleaving


@pytest.mark.slow
@pytest.mark.parametrize("method", interleaving.METHODS)
def test_equal_rankers_are_told_apart_at_the_level(method):
    runs = 200
    share = interleaving.level(method, by_place=False, seeds=runs)
    assert abs(share - 0.05) <= 3 * sqrt(0.05 * 0.95 / runs)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["team_draft", "optimized"])
def test_preferences_have_the_sign_of_an_ab_test(method):
    significant, right = interleaving.signs(method, seeds=100)
    assert significant > 50
    assert right >= 0.99 * significant


@pytest.mark.slow
def test_a_preference_takes_a_tenth_of_the_users_of_an_ab_test():
    lift, few, many, _ = interleaving.users_needed("team_draft", 0.5, users=200)
    assert lift > 0
    assert many > 10 * few


@pytest.mark.slow
def test_drafts_that_one_ranker_begins_too_often_are_found():
    assert interleaving.found(0.2, seeds=3) == 1
    assert interleaving.found(0.0, seeds=3) == 0
