import numpy as np
import pytest

from abeval.stats import duration
from abeval.stats.records import Refusal


def test_steady_traffic_is_proportional() -> None:
    assert duration.days_for_units([1000 * d for d in range(1, 8)], 21_000) == pytest.approx(21)


def test_days_already_reached_are_the_first_such_day() -> None:
    assert duration.days_for_units([100, 250, 300], 250) == 2


def test_returning_users_take_longer() -> None:
    days = np.arange(1, 15)
    cumulative = 1000 * days**0.7
    found = duration.days_for_units(cumulative.tolist(), 1000 * 40**0.7)
    assert found == pytest.approx(40, rel=1e-9)
    assert found > 14 * (1000 * 40**0.7) / cumulative[-1]


def test_information_counts_rather_than_units() -> None:
    # New units stop, information still grows with what they do; and the other way round.
    ses = [0.1 / d**0.25 for d in range(1, 11)]
    assert duration.days_for_se(ses, 0.1 / 30**0.25) == pytest.approx(30, rel=1e-9)


def test_no_date_in_sight_is_a_refusal() -> None:
    calls = [
        (lambda: duration.days_for_units([100] * 9, 200), "not_applicable"),
        (lambda: duration.days_for_units([0] * 9, 200), "not_applicable"),
        (lambda: duration.days_for_units([100], 200), "too_few_units"),
        (lambda: duration.days_for_units([], 200), "too_few_units"),
        (lambda: duration.days_for_se([0.1, 0.0], 0.05), "zero_variance"),
        (lambda: duration.days_for_se([0.1, 0.1, 0.1], 0.05), "not_applicable"),
    ]
    for call, reason in calls:
        with pytest.raises(Refusal) as refusal:
            call()
        assert refusal.value.reason == reason


def test_growth_faster_than_linear_is_not_believed() -> None:
    assert duration.days_for_units([100, 400, 900], 1800) == pytest.approx(6)
