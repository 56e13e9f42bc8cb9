"""The first screen as text: what to do, how large the effect, what is at risk, how long still."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest

import abeval
from abeval import results
from abeval.report.page import render_study
from abeval.report.terminal import as_text
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.study import Study, build_study
from tests import builders, sample
from tests.report.pages import Element, parse, whole, words
from tests.worlds.pages import WORLDS

LIFT = r"[+−]?[\d.]+%"
INTERVAL = rf"\[{LIFT}, {LIFT}\]"


class Row(NamedTuple):
    """A row of the forest, under the title of its role."""

    role: str
    metric: str
    text: str


class Screen(NamedTuple):
    """What somebody reads before they scroll; `actions` are what to do, of each verdict."""

    verdicts: tuple[str, ...]
    actions: tuple[str, ...]
    rows: tuple[Row, ...]
    text: str
    said: tuple[str, ...]


@cache
def study(name: str) -> Study:
    return WORLDS[name]().first()


@cache
def screen(name: str) -> Screen:
    return screen_of(study(name))


def screen_of(shown: Study) -> Screen:
    page = parse(whole(render_study(shown)))
    (section,) = page.all("section", id="verdict")
    assert any(e.attributes.get("id") == "decision" for e in section.inside)
    inside = [e for e in page.elements if section in e.inside]
    actions = [words(e) for e in inside if e.attributes.get("class") == "action"]
    sentences = [words(e) for e in inside if e.attributes.get("class") == "sentence"]
    return Screen(
        tuple(text.partition(" Next: ")[0] for text in sentences),
        tuple(text.removeprefix("Next: ") for text in actions),
        tuple(rows_of(inside)),
        words(section),
        tuple(words(e) for e in inside if e.attributes.get("class") == "next"),
    )


def rows_of(inside: list[Element]) -> Iterator[Row]:
    role = ""
    for row in inside:
        if row.tag == "tr" and any(p.tag == "tbody" for p in row.inside):
            if row.attributes.get("class") == "group":
                role = words(row).split()[0]
                continue
            (name,) = [e for e in inside if e.tag == "th" and row in e.inside]
            yield Row(role, words(name), words(row))


def effect(row: Row) -> str:
    """The lift with its interval, of a row."""
    shown = re.search(rf"{LIFT} {INTERVAL}", row.text)
    assert shown, row
    return shown[0]


def test_ship() -> None:
    shown = screen("sample")
    (verdict,) = shown.verdicts
    assert verdict.startswith("treatment SHIP ctr +13.1% [+8.2%, +18.2%]")
    assert shown.actions == ("Roll out treatment.",)
    assert effect(shown.rows[0]) == "+13.1% [+8.2%, +18.2%]"
    (risk,) = [row for row in shown.rows if row.role == "Guardrails"]
    assert risk.metric == "sessions_per_user"
    assert risk.text.endswith("non-inferiormargin 10%")
    assert "27 checks passed" in shown.text


@pytest.mark.whole
def test_beside_ship_it_says_what_to_expect_less_of() -> None:
    """The end of the interval that is nearer to zero; where nothing ships, nothing."""
    (said,) = [one for one in screen("sample").said if one.startswith("Expect less")]
    row = study("sample").analysis["ctr"]  # type: ignore[index]
    assert row.lift_low is not None
    assert f"plan with ctr +{100 * row.lift_low:.1f}%" in said
    for name in WORLDS:
        if not any("SHIP" in v and "DO NOT" not in v for v in screen(name).verdicts):
            assert "Expect less" not in screen(name).text
    # A goal that is better does not ship by itself.
    stopped = builders.do_not_ship()
    assert stopped["ctr"].status == "better"
    assert screen_of(build_study(stopped)).said == ()
    falls = replace(builders.ship(), scorecard=tuple(map(fallen, builders.ship().scorecard)))
    (said,) = screen_of(build_study(falls)).said
    assert "ctr \u22123.1%" in said


def fallen(row: results.effects.Row) -> results.effects.Row:
    """The same effect, of a metric that is better when it falls."""
    if row.lift is None or row.lift_low is None or row.lift_high is None or row.metric != "ctr":
        return row
    ends = {"lift": -row.lift, "lift_low": -row.lift_high, "lift_high": -row.lift_low}
    return replace(row, direction="decrease", **ends)


def test_a_goal_has_a_line_of_its_effect_up_to_each_day() -> None:
    loaded = abeval.load(sample.FILE)
    metrics = ["ctr", "sessions_per_user"]
    time = loaded.windows(metrics=metrics)
    shown = Study(analysis=study("sample").analysis, time=time)
    page = parse(whole(render_study(shown)))
    lines = [e for e in page.all("svg") if e.attributes["class"].startswith("spark")]
    # No line of a guardrail, which the row does not follow from day to day.
    assert [e.attributes["aria-label"] for e in lines] == ["ctr, treatment, up to each day"]
    assert lines[0].attributes["class"] == "spark v1"
    assert 'class="spark' not in render_study(Study(analysis=shown.analysis))


def test_no_effect_in_several_variants_is_a_line_each_best_first() -> None:
    shown = screen("without_effect")
    lifts = {v: study("without_effect").analysis["ctr", v].lift for v in "BCD"}  # type: ignore[index]
    best_first = sorted(lifts, key=lambda v: -(lifts[v] or 0))
    assert [line.split()[:2] for line in shown.verdicts] == [[v, "UNDECIDED,"] for v in best_first]
    assert "Variants by verdict, best first" in shown.text
    for line in shown.verdicts:
        assert re.search(rf"could be anywhere from {LIFT} to {LIFT}", line)
    # Its ten days are over: it says of the best variant what this test could see, and what a next.
    row = study("without_effect").analysis["ctr", best_first[0]]  # type: ignore[index]
    detected = f"{float(f'{100 * row.mde:.2g}'):g}"
    assert re.fullmatch(
        rf"Stop and keep A\. This test can detect ±{detected}% of ctr of {best_first[0]}\. If "
        r"smaller effects matter, ±\d+% takes about \d+ days in all \([\d.]+ times as long, "
        r"about [\d\W]+ units\), in a new test\.",
        shown.actions[0],
    )
    assert len([row for row in shown.rows if row.role == "Guardrails"]) == 3
    assert len(shown.actions) == 3
    for row in shown.rows:
        effect(row)


def test_failed_trust_is_said_once_with_what_to_look_for() -> None:
    shown = screen("failed_trust")
    (verdict,) = shown.verdicts
    assert verdict.startswith("treatment DO NOT TRUST srm (sample ratio mismatch): control has ")
    assert shown.actions[0].startswith("Look for a wrong weight, a redirect")
    assert "Decide nothing" in shown.actions[0]
    assert shown.text.count("were expected") == 1
    assert "Show untrusted numbers" in shown.text
    effect(shown.rows[0])


def test_a_variant_without_units_is_named_before_any_chi_square() -> None:
    shown = screen("without_units")
    # It holds for all variants, so it is one line.
    (verdict,) = shown.verdicts
    assert verdict.startswith(
        "DO NOT TRUST srm (sample ratio mismatch): no unit was assigned to 'forgotten': "
    )
    assert "chi-square" not in shown.text.split("no unit was assigned to 'forgotten'")[0]
    assert "p = 0)" not in shown.text
    assert shown.actions[0].startswith("Find out why no unit is in forgotten")
    assert shown.text.count("no unit was assigned to 'forgotten'") == 1


def test_sixteen_units_are_too_little_and_it_says_how_many_are_not() -> None:
    shown = screen("sixteen_units")
    (verdict,) = shown.verdicts
    assert verdict.startswith("pilot UNDECIDED, TEST ANEW ctr and clicks_per_user have")
    few = "Too few units: pilot has 16. ctr needs at least 30 to be tested"
    assert shown.actions == (f"{few}, and far more to be decided. Plan a new test with more.",)
    assert all(
        re.search(rf"{INTERVAL} ?\S+ → \S+ too little data(margin 5%)?$", row.text)
        for row in shown.rows
    )
    # Where there is too little data, nobody knows what could be seen.
    assert 'class="detectable"' not in render_study(study("sixteen_units"))
    assert 'class="detectable"' in render_study(study("sample"))
    assert "16 pilot" in shown.text


def test_hostile_names_are_read_as_they_are() -> None:
    shown = screen("hostile")
    assert len(shown.verdicts) == 3
    assert shown.verdicts[-1].startswith("</script><script>window.pwned=1</script> DO NOT SHIP")
    assert all(" UNDECIDED, STOP " in line for line in shown.verdicts[:2])
    assert re.search(r"matter, ±\d+% takes about [\d\u202f]+ units in all", shown.actions[0])
    assert "left \ufffdto right" in shown.text
    assert len(shown.rows) == 18
    for row in shown.rows:
        effect(row)


def test_seventy_two_rows_say_how_many_units_are_too_few() -> None:
    shown = screen("small_csv")
    (verdict,) = shown.verdicts
    assert verdict.startswith("treatment UNDECIDED, TEST ANEW ctr and clicks_per_user have")
    few = "Too few units: treatment has 8. ctr needs at least 30 to be tested"
    assert shown.actions == (f"{few}, and far more to be decided. Plan a new test with more.",)
    assert "e+" not in shown.text
    page = words(parse(whole(render_study(study("small_csv")))).all("header")[0])
    assert page.count("2026-03-02") == page.count("day 3 of 3 (2026-03-02 to 2026-03-04)") == 1
    assert "days of data" not in shown.text


@pytest.mark.parametrize("name", WORLDS)
def test_numbers_are_those_of_the_result(name: str) -> None:
    """Units, and each row's effect and status, in words."""
    result = study(name).analysis
    assert result is not None
    shown = screen(name)
    for variant in result.experiment.variants:
        assert f"{variant.units:,}".replace(",", "\u202f") in shown.text
    judged = [row for row in result.scorecard if row.role != "diagnostic"]
    assert len(shown.rows) == len(judged)
    for row in judged:
        metric = printed_name(row.metric)
        texts = [one.text for one in shown.rows if one.metric == metric]
        lift = fmt.format_lift(row.lift, row.lift_low, row.lift_high)
        effect = fmt.typeset_numbers(lift.text) if lift else fmt.MISSING
        status = codes.describe_status(row.status, row.reason)
        assert any(
            effect in t and status in t and printed_name(row.variant) in t for t in texts
        ) or (len(result.verdicts) == 1 and any(effect in t and status in t for t in texts))


def printed_name(name: str) -> str:
    """A name without marks that turn the direction of writing, as the page has it."""
    return re.sub("[\u202a-\u202e\u2066-\u2069]", "\ufffd", name)


def test_of_many_rows_the_first_are_shown_and_the_others_counted() -> None:
    rows = tuple(builders.row(f"m{i:02}") for i in range(30))
    many = screen_of(build_study(builders.result(scorecard=rows)))
    assert len(many.rows) == 24
    assert "6 more among every lift." in many.text


def test_an_early_ship_says_that_its_look_allows_it_and_names_the_boundary() -> None:
    crossed = results.effects.Boundary("ctr", "treatment", 0.5, 7.0, 2.96, crossed=True)
    early = replace(
        builders.ship(),
        schedule=results.analysis.Schedule(look=2, looks=3, next_look="2026-09-20"),
        boundaries=(crossed,),
    )
    said = "Roll out treatment before the planned end: look 2 of 3 allows it."
    assert screen_of(build_study(early)).actions == (said,)
    crossing = (
        "look 2 of 3: ctr p 2.6e-12 is below its boundary 0.00308, so an early stop is allowed"
    )
    assert early.progress.startswith(crossing)
    assert "next look" not in early.progress
    last = replace(early, schedule=results.analysis.Schedule(look=3, looks=3))
    assert screen_of(build_study(last)).actions == ("Roll out treatment.",)


def test_units_have_their_share_beside_the_planned_one() -> None:
    assert "treatment 42.9%, planned 50%" in screen("failed_trust").text


def test_an_undecided_headline_says_whether_to_stop_or_to_run_on() -> None:
    """In the words of its next step, alike on the page, in Markdown and in the terminal."""
    ended = study("without_effect")
    open_row = builders.row("ctr", status="unclear", **builders.effect(0.01, 0.02))
    verdict = results.trust.Verdict(
        "treatment", "keep_running", "UNDECIDED: ctr could be anywhere."
    )
    base = builders.result(scorecard=(open_row,), verdicts=(verdict,))
    running = replace(base, experiment=replace(base.experiment, end="2099-01-01T00:00:00"))
    for shown, word in ((ended, "UNDECIDED, STOP"), (build_study(running), "UNDECIDED, RUN ON")):
        assert shown.analysis is not None
        texts = (screen_of(shown).verdicts[0], shown.to_markdown(), as_text(shown.analysis))
        assert all(word in text for text in texts), texts


def test_a_ship_without_a_guardrail_says_so_beside_its_word() -> None:
    base = builders.ship()
    alone = replace(base, scorecard=tuple(r for r in base.scorecard if r.role == "goal"))
    assert "SHIP, NO GUARDRAIL SET ctr" in screen_of(build_study(alone)).verdicts[0]
    assert as_text(alone).startswith("SHIP, NO GUARDRAIL SET: ")
    assert "NO GUARDRAIL" not in as_text(base)
