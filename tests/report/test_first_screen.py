"""The first screen as text: what to do, how large the effect, what is at risk, how long still."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import pytest

from abeval.report.page import page_html
from abeval.results.study import Study
from benchmarks.report_worlds import WORLDS
from tests.report.pages import parse, words

LIFT = r"[+−]?[\d.]+%"
INTERVAL = rf"\[{LIFT}, {LIFT}\]"


class Screen(NamedTuple):
    """What somebody reads before they scroll."""

    verdicts: tuple[str, ...]
    next_step: str
    rows: tuple[str, ...]
    text: str


@cache
def study(name: str) -> Study:
    return WORLDS[name]().first()


@cache
def screen(name: str) -> Screen:
    page = parse(page_html(study(name)))
    (section,) = page.all("section", id="verdict")
    inside = [e for e in page.elements if section in e.inside]
    (step,) = [e for e in inside if e.attributes.get("class") == "next"]
    rows = [e for e in inside if e.tag == "tr" and any(p.tag == "tbody" for p in e.inside)]
    return Screen(
        tuple(words(e) for e in inside if e.attributes.get("class") == "sentence"),
        words(step).removeprefix("Next "),
        tuple(words(row) for row in rows),
        words(section),
    )


def effect(row: str) -> str:
    """The lift with its interval, of a row."""
    shown = re.search(rf"{LIFT} {INTERVAL}", row)
    assert shown, row
    return shown[0]


def test_ship() -> None:
    shown = screen("sample")
    (verdict,) = shown.verdicts
    assert verdict.startswith("SHIP ctr +13.1% [+8.3%, +18.2%]")
    assert shown.next_step == "Roll out treatment."
    assert effect(shown.rows[0]) == "+13.1% [+8.3%, +18.2%]"
    risk = next(row for row in shown.rows if "guardrail" in row)
    assert risk.startswith("sessions_per_user guardrail")
    assert risk.endswith("non-inferior")


def test_no_effect_in_several_variants_is_a_line_each_best_first() -> None:
    shown = screen("without_effect")
    lifts = {v: study("without_effect").analysis["ctr", v].lift for v in "BCD"}  # type: ignore[index]
    best_first = sorted(lifts, key=lambda v: -(lifts[v] or 0))
    assert [line.split()[:3] for line in shown.verdicts] == [
        [v, "KEEP", "RUNNING"] for v in best_first
    ]
    for line in shown.verdicts:
        assert re.search(rf"could be anywhere from {LIFT} to {LIFT}", line)
    # Its ten days are over: it says of the best variant what this test could see, and what a next.
    row = study("without_effect").analysis["ctr", best_first[0]]  # type: ignore[index]
    assert re.fullmatch(
        rf"Stop and keep A, unless an effect below ±{float(f'{100 * row.mde:.2g}'):g}% of ctr of "
        rf"{best_first[0]} is worth it: seeing ±\d+% would take about \d+ days in all, [\d.]+ "
        r"times this test, in a new test that is planned for it\.",
        shown.next_step,
    )
    assert len([row for row in shown.rows if "guardrail" in row]) == 3
    for row in shown.rows:
        effect(row)


def test_failed_trust_is_said_once_with_what_to_look_for() -> None:
    shown = screen("failed_trust")
    (verdict,) = shown.verdicts
    assert verdict.startswith("DO NOT TRUST srm: control has ")
    assert shown.next_step.startswith("Look for units lost after assignment")
    assert "Decide nothing" in shown.next_step
    assert shown.text.count("were expected") == 1
    assert "Show untrusted numbers" in shown.text
    effect(shown.rows[0])


def test_a_variant_without_units_is_named_before_any_chi_square() -> None:
    shown = screen("without_units")
    # It holds for all variants, so it is one line.
    (verdict,) = shown.verdicts
    assert verdict.startswith("DO NOT TRUST srm: nobody is in 'forgotten': ")
    assert "chi-square" not in shown.text.split("nobody is in 'forgotten'")[0]
    assert "p = 0)" not in shown.text
    assert shown.next_step.startswith("Find out why nobody is in forgotten")
    assert shown.text.count("nobody is in 'forgotten'") == 1


def test_sixteen_units_are_too_little_and_it_says_how_many_are_not() -> None:
    shown = screen("sixteen_units")
    (verdict,) = shown.verdicts
    assert verdict.startswith("KEEP RUNNING ctr has too little data")
    assert shown.next_step == "Get 30 units in each variant to judge ctr: one has 16."
    # Where there is too little data, nobody knows what could be seen.
    assert all(re.search(rf"{INTERVAL} n/a too little data$", row) for row in shown.rows)
    assert "16 pilot" in shown.text


def test_hostile_names_are_read_as_they_are() -> None:
    shown = screen("hostile")
    assert len(shown.verdicts) == 3
    assert shown.verdicts[-1].startswith("</script><script>window.pwned=1</script> DO NOT SHIP")
    assert all(" KEEP RUNNING " in line for line in shown.verdicts[:2])
    assert re.search(r"seeing ±\d+% would take about [\d\u202f]+ units in all", shown.next_step)
    assert "left \ufffdto right" in shown.text
    assert len(shown.rows) == 16
    assert "2 more in the scorecard" in shown.text
    for row in shown.rows:
        effect(row)


def test_seventy_two_rows_say_how_many_units_are_too_few() -> None:
    shown = screen("small_csv")
    (verdict,) = shown.verdicts
    assert verdict.startswith("KEEP RUNNING ctr has too little data")
    assert shown.next_step == "Get 30 units in each variant to judge ctr: one has 8."
    assert "e+" not in shown.text
    assert "2026-03-02 up to 2026-03-05" in shown.text


@pytest.mark.parametrize("name", WORLDS)
def test_numbers_are_those_of_the_result(name: str) -> None:
    """Units, and each row's status, in words."""
    result = study(name).analysis
    assert result is not None
    shown = screen(name)
    for variant in result.experiment.variants:
        assert f"{variant.units:,}".replace(",", "\u202f") in shown.text
    assert len(shown.rows) == min(16, sum(r.role != "diagnostic" for r in result.scorecard))
