"""What a table says twice is compared: within its printed digits it agrees, or it is refused."""

from __future__ import annotations

import io

import pandas as pd
import pytest

import abeval
from abeval.errors import LogError

MEANS = "variant,n,revenue_mean,revenue_sd,{0}\nA,1000,10.5,4.0,{1}\nB,1010,11.0,4.2,{2}"
COUNTS = "variant,users,conversions,{0}\nA,1000,100,{1}\nB,1000,120,{2}"
VIEWS = "variant,users,clicks,views,{0}\nA,1000,100,5000,{1}\nB,1000,120,5000,{2}"


def analyze(form: str, *cells: str) -> abeval.Result:
    text = form.format(*cells)
    return abeval.analyze(pd.read_csv(io.StringIO(text), dtype=str), unit="row")


@pytest.mark.first_cases(3)
@pytest.mark.parametrize(
    ("form", "column", "agrees", "differs"),
    [
        (MEANS, "revenue_se", (".126", ".132"), ("9", "9")),
        (MEANS, "revenue_variance", ("16", "17.6"), ("16", "21")),
        (MEANS, "se", (".13", ".13"), ("4.0", "4.2")),
        (MEANS, "revenue_sum", ("10512.34", "11110"), ("12000", "11110")),
        (MEANS, "total revenue", ("10512.34", "11110"), ("10512.34", "12000")),
        (MEANS, "revenue_upper", ("10.75", "11.3"), ("10.75", "13")),
        (MEANS, "ci_low", ("10.25", "10.7"), ("10.25", "11.1")),
        (COUNTS, "conversion_rate", ("10%", "12%"), ("10%", "13%")),
        (COUNTS, "CVR %", ("10", "12"), ("10", "13")),
        (COUNTS, "share", (".10", ".12"), (".10", ".13")),
        (COUNTS, "conversions_ci_high", (".12", ".14"), (".12", ".10")),
        (VIEWS, "ctr", (".02", ".024"), (".02", ".03")),
    ],
)
def test_what_is_said_twice_agrees_or_is_refused(
    form: str, column: str, agrees: tuple[str, str], differs: tuple[str, str]
) -> None:
    plain = analyze(form, "other", "0", "0")
    assert analyze(form, column, *agrees).scorecard == plain.scorecard
    with pytest.raises(LogError, match=r"row [12]: .* is .*, but"):
        analyze(form, column, *differs)


@pytest.mark.parametrize("column", ["bounce_rate", "revenue_per_user", "lift_low"])
def test_what_says_something_else_is_not_compared(column: str) -> None:
    result = analyze(COUNTS, column, ".4" if column != "lift_low" else "", ".41")
    assert f"not used: {column}" in " ".join(result.notes)


@pytest.mark.parametrize("cell", ["1e200", "1e300", "1e999999999", "1e-999999999"])
def test_numbers_that_no_sum_holds_are_refused(cell: str) -> None:
    for form in (MEANS.replace("10.5", cell), MEANS.replace("4.0", cell)):
        with pytest.raises(LogError, match="no such value can be summed"):
            analyze(form, "other", "0", "0")
    sums = pd.DataFrame({"metric": "m", "variant": ["a", "b"], "n": 100, "sum_y": 9.0})
    with pytest.raises(LogError, match="no such value can be summed"):
        abeval.analyze_sums(sums.assign(sum_yy=[cell, "9"]))
