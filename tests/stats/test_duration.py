import math

import numpy as np
import pytest

from abeval.stats import design
from abeval.stats.records import Refusal


def days_for_information(information: list[float], needed: float) -> float:
    """Days until the standard error is that of the information needed."""
    ses = [value**-0.5 if value > 0 else math.inf for value in information]
    return design.days_for_se(ses, needed**-0.5)


def test_steady_traffic_is_proportional() -> None:
    assert days_for_information([1000 * d for d in range(1, 8)], 21_000) == pytest.approx(21)


def test_days_already_reached_are_the_first_such_day() -> None:
    assert days_for_information([100, 250, 300], 250) == 2


def test_returning_users_take_longer() -> None:
    days = np.arange(1, 15)
    cumulative = 1000 * days**0.7
    found = days_for_information(cumulative.tolist(), 1000 * 40**0.7)
    assert found == pytest.approx(40, rel=1e-9)
    assert found > 14 * (1000 * 40**0.7) / cumulative[-1]


def test_information_counts_rather_than_units() -> None:
    # New units stop, information still grows with what they do; and the other way round.
    ses = [0.1 / d**0.25 for d in range(1, 11)]
    assert design.days_for_se(ses, 0.1 / 30**0.25) == pytest.approx(30, rel=1e-9)


def test_no_date_in_sight_is_a_refusal() -> None:
    calls = [
        (lambda: days_for_information([100] * 9, 200), "not_applicable"),
        (lambda: days_for_information([1.0] * 9, 2), "not_applicable"),
        (lambda: days_for_information([0] * 9, 200), "not_applicable"),
        (lambda: days_for_information([100], 200), "too_few_units"),
        (lambda: days_for_information([], 200), "too_few_units"),
        (lambda: design.days_for_se([0.1, 0.0], 0.05), "zero_variance"),
        (lambda: design.days_for_se([0.1, 0.1, 0.1], 0.05), "not_applicable"),
        (lambda: design.days_for_se([0.2, 0.1], 0.0), "zero_variance"),
        (lambda: design.value_at([100.0], 2), "too_few_units"),
        (lambda: design.value_at([0.0, 0.0], 3), "not_applicable"),
    ]
    for call, reason in calls:
        with pytest.raises(Refusal) as refusal:
            call()
        assert refusal.value.reason == reason


def test_growth_faster_than_linear_is_not_believed() -> None:
    assert days_for_information([100, 400, 900], 1800) == pytest.approx(6)


def settling(days: int, stays: float, before: int = 0) -> list[float]:
    """Information whose variance falls as `stays` + (1 - `stays`) / day."""
    return [1 / (stays + (1 - stays) / day) for day in range(before + 1, days + 1)]


def test_what_differs_between_returning_units_stays() -> None:
    for stays in (0.0, 0.2, 0.6):
        week = settling(7, stays)
        needed = settling(60, stays)[-1]
        assert design.information_at(week, 60) == pytest.approx(needed, rel=1e-9)


def test_only_the_last_week_tells_how_information_grows() -> None:
    # Twelve days of nearly nothing, then a week of one unit of information a day.
    slow = [0.001 * day for day in range(1, 13)]
    predicted = days_for_information([*slow, *[1.0 * d for d in range(13, 20)]], 100.0)
    assert predicted == pytest.approx(100, rel=1e-9)
    later = settling(19, 0.3)
    assert design.information_at([1e-9] * 12 + later[12:], 50) == pytest.approx(
        settling(50, 0.3)[-1], rel=1e-9
    )


def test_six_days_do_not_tell_what_stays_seven_do() -> None:
    days = settling(7, 0.3)
    assert design.information_at(days, 30) == pytest.approx(settling(30, 0.3)[-1], rel=1e-9)
    power = design.value_at(days[:6], 30)
    assert design.information_at(days[:6], 30) == power
    assert abs(power / settling(30, 0.3)[-1] - 1) > 0.05


def test_information_never_grows_faster_than_the_days() -> None:
    fast = [float(day**2) for day in range(1, 11)]
    assert design.information_at(fast, 25) == pytest.approx(250)
    assert design.value_at(fast, 25) == pytest.approx(250)


def test_information_that_falls_does_not_fall_for_ever() -> None:
    falling = [9.0 - day for day in range(1, 9)]
    assert design.information_at(falling, 30) == pytest.approx(1.0)


def test_within_the_observed_days_nothing_is_predicted() -> None:
    values = [10.0, 50.0, 60.0]
    assert [design.value_at(values, day) for day in (0.2, 1, 1.5, 2, 3)] == [10, 10, 50, 50, 60]


def test_an_end_in_half_a_billion_days_is_none() -> None:
    # As the logarithm of information grows by a twentieth of that of the days.
    slow = [day**0.05 for day in range(1, 11)]
    near = slow[-1] * math.exp(19 * 0.05)
    assert days_for_information(slow, near) == pytest.approx(10 * math.exp(19), rel=1e-6)
    with pytest.raises(Refusal):
        days_for_information(slow, slow[-1] * math.exp(20.5 * 0.05))


def test_two_days_are_enough_to_grow_on() -> None:
    assert days_for_information([100, 200], 400) == pytest.approx(4)
