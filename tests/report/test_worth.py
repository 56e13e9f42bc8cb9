"""What a variant is worth: one line, its numbers those of the JSON."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import abeval
from abeval.report.worth import describe_worth, write_worth_lines
from tests.sample import analysis
from tests.worlds.triggered import World, analyze_world


@pytest.fixture(scope="module")
def sample() -> abeval.Result:
    return analysis()


def test_numbers_are_those_of_the_json_rounded(sample: abeval.Result) -> None:
    (worth, *_) = sample.worth
    found = re.findall(r"[+-]?\d+", describe_worth(sample, worth))
    ends = [worth.change, worth.change_low, worth.change_high]
    assert [abs(float(x)) for x in found[:3]] == pytest.approx([abs(e) for e in ends], abs=0.51)


def test_it_says_once_how_it_is_computed(sample: abeval.Result) -> None:
    text = " ".join(words for _, words in write_worth_lines(sample))
    assert text.count("Computed from the difference per unit") == 1
    assert "s of dwell a day" in text


def test_the_first_screen_has_it_and_both_values(sample: abeval.Result, tmp_path: Path) -> None:
    page = (sample.report(tmp_path / "r.html")).read_text()
    decision = page[page.index('id="decision"') : page.index('id="explore"')]
    assert "clicks a day" in decision
    assert re.search(r"\d+\.\d+% → \d+\.\d+%", decision)


def test_where_only_some_units_are_exposed_it_says_the_share_of_all_traffic() -> None:
    result = analyze_world(
        World(lift=0.8), 3, metrics=[{"name": "clicks_per_user", "role": "goal"}]
    )
    text = describe_worth(result, result.worth[0])
    assert re.search(r", which is \+\d+(\.\d+)?% \[.*\] of all traffic, exposed or not$", text)


def test_a_result_that_is_not_trusted_has_no_worth() -> None:
    result = analyze_world(World(wider=1.6), 1, metrics=[{"name": "ctr", "role": "goal"}])
    assert not result.trusted
    assert write_worth_lines(result) == []
