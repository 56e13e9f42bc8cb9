"""Printed numbers: the same decimals, the right side of zero, arms that differ look different."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from abeval.results import format as fmt

NUMBERS = st.floats(-50, 50, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 1e-9)
WIDTHS = st.floats(1e-6, 20)


def places(text: str) -> int:
    return len(text.rstrip("%").partition(".")[2])


def number(text: str) -> float:
    return float(text.rstrip("%").replace(",", ""))


@given(NUMBERS, WIDTHS, WIDTHS)
def test_an_effect_has_the_same_decimals_in_all_three_numbers(
    value: float, below: float, above: float
) -> None:
    shown = fmt.format_lift(value, value - below, value + above)
    assert shown
    assert len({places(text) for text in shown[:3]}) == 1


@given(NUMBERS, WIDTHS, WIDTHS)
def test_an_effect_reads_back_to_half_its_last_digit(
    value: float, below: float, above: float
) -> None:
    numbers = (value, value - below, value + above)
    shown = fmt.format_difference(*numbers)
    assert shown
    half = 0.5 * 10.0 ** -places(shown.point)
    for text, raw in zip(shown[:3], numbers, strict=True):
        assert abs(number(text) - raw) <= half * (1 + 1e-6)


@given(NUMBERS, WIDTHS)
def test_an_end_says_which_side_of_zero_it_is_on(value: float, width: float) -> None:
    low, high = value - width, value + width
    shown = fmt.format_lift(value, low, high)
    assert shown
    for text, raw in ((shown.low, low), (shown.high, high)):
        assert text[0] == ("+" if raw > 0 else "-" if raw < 0 else "0")


def test_an_estimate_of_zero_has_no_sign() -> None:
    shown = fmt.format_lift(-0.0004, -0.114, 0.116)
    assert shown
    assert shown.text == "0% [-11%, +12%]"


@given(WIDTHS)
def test_an_interval_shows_two_significant_digits_of_its_half_width(width: float) -> None:
    shown = round(width, fmt.choose_decimals(width))
    assert math.isclose(shown, width, rel_tol=0.051)
    assert fmt.choose_decimals(width) == 0 or shown < 100 * 10.0 ** -fmt.choose_decimals(width)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_arms_that_differ_print_differently(control: float, treatment: float) -> None:
    assume(abs(control - treatment) > 1e-9 * max(control, treatment))
    left, right = fmt.format_pair(control, treatment)
    assert left != right


@given(st.floats(0, 1))
def test_a_p_value_is_never_a_bare_zero(p: float) -> None:
    assert fmt.format_p_value(p) != "0.000"
    assert len(fmt.format_p_value(p).lstrip("<")) == 5


@given(st.integers(0, 10**12))
def test_counts_and_thin_spaces_read_back(n: int) -> None:
    shown = fmt.typeset_numbers(fmt.format_count(n))
    assert "," not in shown
    assert int(shown.replace("\u202f", "")) == n


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((0.021345, 0.00912, 0.03357), "+2.1% [+0.9%, +3.4%]"),
        ((0.000423, -0.000112, 0.000958), "+0.042% [-0.011%, +0.096%]"),
        ((0.0, -0.01, 0.01), "0.0% [-1.0%, +1.0%]"),
        ((12.3, 10.1, 14.5), "+1,230% [+1,010%, +1,450%]"),
        ((0.12, None, None), "+12% [unbounded]"),
        ((0.12, -0.03, None), "+12% [-3%, unbounded]"),
        ((0.05, 0.05, 0.05), "+5.0% [+5.0%, +5.0%]"),
        ((0.0, 0.0, 0.0), "0.0% [0.0%, 0.0%]"),
    ],
)
def test_lifts(numbers: tuple[float, float | None, float | None], text: str) -> None:
    shown = fmt.format_lift(*numbers)
    assert shown
    assert shown.text == text


def test_differences_of_rates_are_points_and_never_per_cent() -> None:
    shown = fmt.format_difference(-0.0082, -0.0131, -0.0033, "share")
    assert shown
    assert shown.text == "-0.82 pp [-1.31, -0.33]"
    assert shown.span == "from -1.31 to -0.33 pp"


@pytest.mark.parametrize(
    ("arms", "texts"),
    [
        ((0.4467, 0.4378, "share"), ("44.7%", "43.8%")),
        ((3.2, 3.2, ""), ("3.20", "3.20")),
        ((0.0, 0.001, ""), ("0", "0.00100")),
        ((None, 21.93, "s"), ("n/a", "21.9 s")),
        ((1234567.0, 1234999.0, ""), ("1,234,567", "1,234,999")),
        ((3e-9, 4e-9, ""), ("3.00e-09", "4.00e-09")),
    ],
)
def test_pairs(arms: tuple[float | None, float | None, str], texts: tuple[str, str]) -> None:
    assert fmt.format_pair(*arms) == texts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[-0.3%, +1.1%]", "[\u22120.3%, +1.1%]"),
        ("2022-04-24 to 2022-05-01", "2022-04-24 to 2022-05-01"),
        ("top-5 ranker-2", "top-5 ranker-2"),
        ("1,234,567 rows, 3 late", "1\u202f234\u202f567 rows, 3 late"),
        ("[1,2], a,b", "[1,2], a,b"),
    ],
)
def test_typographic_touches_numbers_and_no_words(text: str, shown: str) -> None:
    assert fmt.typeset_numbers(text) == shown


def test_an_end_beside_zero_shows_its_digits() -> None:
    assert fmt.format_difference(-0.0186, -0.037, -0.00021).text == "-0.0186 [-0.0370, -0.0002]"
    assert fmt.format_lift(0.145, -0.004, 0.29).text == "+14.5% [-0.4%, +29.0%]"
    assert fmt.format_difference(0.5, -1e-12, 1.0).low.startswith("-")


def test_a_control_is_printed_alike_beside_every_variant() -> None:
    assert fmt.choose_digits([0.1057, 0.1056, 0.1057, 0.112], "share") == 4
    assert fmt.format_value(0.1057, "share", 4) == "10.57%"
    assert fmt.choose_digits([None, 2.0, 2.0]) == 3


def test_an_effect_that_is_not_there_is_false_and_says_so() -> None:
    for shown in (
        fmt.format_lift(None, None, None),
        fmt.format_difference(None, 0.1, 0.2, "share"),
    ):
        assert not shown
        assert (shown.text, shown.estimate, shown.interval) == (fmt.MISSING, fmt.MISSING, "")
    assert fmt.format_lift(0.0, None, None)
    assert fmt.format_lift(0.0, None, None).text == "0.0% [unbounded]"
