import numpy as np
import pytest

from abeval.stats import design
from abeval.stats.records import Refusal


def test_steady_traffic_is_proportional() -> None:
    assert design.predict_total([1000.0 * d for d in range(1, 8)], 21) == pytest.approx(21_000)


def test_returning_users_add_less() -> None:
    cumulative = (1000 * np.arange(1, 15) ** 0.7).tolist()
    assert design.predict_total(cumulative, 40) == pytest.approx(1000 * 40**0.7, rel=1e-9)


def test_what_does_not_grow_is_a_refusal() -> None:
    calls = [
        (lambda: design.predict_total([100.0], 2), "too_few_units"),
        (lambda: design.predict_total([0.0, 0.0], 3), "not_applicable"),
    ]
    for call, reason in calls:
        with pytest.raises(Refusal) as refusal:
            call()
        assert refusal.value.reason == reason


def test_growth_faster_than_linear_is_not_believed() -> None:
    assert design.predict_total([100.0, 400.0, 900.0], 6) == pytest.approx(1800)


def settling(days: int, stays: float, before: int = 0) -> list[float]:
    """Information whose variance falls as `stays` + (1 - `stays`) / day."""
    return [1 / (stays + (1 - stays) / day) for day in range(before + 1, days + 1)]


def test_what_differs_between_returning_units_stays() -> None:
    for stays in (0.0, 0.2, 0.6):
        week = settling(7, stays)
        needed = settling(60, stays)[-1]
        assert design.predict_information(week, 60) == pytest.approx(needed, rel=1e-9)


def test_only_the_last_week_tells_how_information_grows() -> None:
    # Twelve days of nearly nothing, then a week of one unit of information a day.
    slow = [0.001 * day for day in range(1, 13)]
    predicted = design.predict_total([*slow, *[1.0 * d for d in range(13, 20)]], 100)
    assert predicted == pytest.approx(100, rel=1e-9)
    later = settling(19, 0.3)
    assert design.predict_information([1e-9] * 12 + later[12:], 50) == pytest.approx(
        settling(50, 0.3)[-1], rel=1e-9
    )


def test_six_days_do_not_tell_what_stays_seven_do() -> None:
    days = settling(7, 0.3)
    assert design.predict_information(days, 30) == pytest.approx(settling(30, 0.3)[-1], rel=1e-9)
    power = design.predict_total(days[:6], 30)
    assert design.predict_information(days[:6], 30) == power
    assert abs(power / settling(30, 0.3)[-1] - 1) > 0.05


def test_information_never_grows_faster_than_the_days() -> None:
    fast = [float(day**2) for day in range(1, 11)]
    assert design.predict_information(fast, 25) == pytest.approx(250)
    assert design.predict_total(fast, 25) == pytest.approx(250)


def test_information_that_falls_does_not_fall_for_ever() -> None:
    falling = [9.0 - day for day in range(1, 9)]
    assert design.predict_information(falling, 30) == pytest.approx(1.0)


def test_within_the_observed_days_nothing_is_predicted() -> None:
    values = [10.0, 50.0, 60.0]
    assert [design.predict_total(values, day) for day in (0.2, 1, 1.5, 2, 3)] == [
        10,
        10,
        50,
        50,
        60,
    ]


def test_two_days_are_enough_to_grow_on() -> None:
    assert design.predict_total([100.0, 200.0], 4) == pytest.approx(400)
