"""The result as text: complete, plain, within its width."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pandas as pd
import pytest
from rich.console import Console

import abeval
from abeval.report.markdown import markdown
from abeval.report.terminal import as_text, print_result
from abeval.results.analysis import Account, Result
from abeval.results.format import format_row_effect
from abeval.results.study import build_study
from abeval.results.trust import Check
from tests import builders
from tests.logs.small import small_log

RESULTS = [
    builders.ship,
    builders.do_not_ship,
    builders.untrusted,
    builders.three_variants,
    builders.refused,
    builders.hostile,
]
EVERY = pytest.mark.parametrize("result", [make() for make in RESULTS], ids=lambda r: "")


@EVERY
@pytest.mark.parametrize("width", [80, 100, 120])
def test_text_fits_its_width(result: Result, width: int) -> None:
    assert max(len(line) for line in as_text(result, width).splitlines()) <= width


@EVERY
def test_text_is_the_same_on_every_run(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    before = as_text(result)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert as_text(result) == before
    assert "\x1b" not in before


@EVERY
def test_every_row_of_the_scorecard_is_there(result: Result) -> None:
    text = as_text(result, 200)
    for row in result.scorecard:
        shown = format_row_effect(row, next(m.unit for m in result.metrics if m.name == row.metric))
        assert row.metric in text
        assert shown is None or shown.text in text


def test_the_verdict_comes_first_and_names_its_variant_among_several() -> None:
    assert as_text(builders.ship()).startswith("SHIP: ctr +5.9% [+3.1%, +8.7%]")
    assert as_text(builders.three_variants()).startswith("treatment: SHIP: ctr")


def test_only_checks_that_did_not_pass_are_shown_in_full() -> None:
    text = as_text(builders.ship())
    assert "Trust: 2 checks passed, 1 warned\n" in text
    assert "2.9% of rows repeat another." in text
    assert "8 units were seen" not in text
    # That no days are known from before is nothing that anybody could do something about.
    assert "pre_period" not in text


def test_checks_that_somebody_can_make_are_named_by_what_to_do() -> None:
    skipped = [
        Check(name, "skipped", None, None, "no such column", remedy=remedy)
        for name, remedy in (
            ("served", "map it"),
            ("clock", ""),
            ("late", "map it"),
            ("srm", "say"),
        )
    ]
    text = as_text(builders.result(trust=(*builders.TRUST[:2], *skipped)))
    lines = text.splitlines()
    at = lines.index("Trust: 2 checks passed")
    assert lines[at : at + 3] == [
        "Trust: 2 checks passed",
        "Not checked: served and late (map it); srm (say)",
        "",
    ]
    assert "clock" not in text


def test_one_sentence_of_several_variants_is_said_once() -> None:
    base = builders.three_variants()
    same = tuple(
        replace(v, decision="draft", sentence="DRAFT: x?", notes=()) for v in base.verdicts
    )
    lines = as_text(replace(base, verdicts=same)).splitlines()
    assert lines[0] == "DRAFT: x?"
    assert lines[1].startswith("ranker_v2: ")


def test_rows_that_are_units_are_counted_once() -> None:
    base = builders.result()
    units = sum(variant.units for variant in base.experiment.variants)
    whole = Account("units", units, units, ())
    assert "\nRows\n" not in as_text(replace(base, accounting=(whole,)))
    lost = replace(whole, read=units + 3, set_aside=(("null_unit", 3),))
    assert "(3 null unit)" in as_text(replace(base, accounting=(lost,)))


def test_untrusted_numbers_say_so() -> None:
    assert "Scorecard (NOT TO BE TRUSTED)" in as_text(builders.untrusted())


def test_refusals_are_words() -> None:
    text = as_text(builders.refused())
    assert "too little data   no clicks" in text
    assert "+1.2 s [-0.7, +3.1] abs" in text
    assert "nan" not in text.lower()


def test_accounting_adds_up_in_print() -> None:
    text = as_text(builders.ship())
    assert "94,784 read = 92,010 used + 2,774 set aside (2,750 duplicate, 24 null unit)" in text
    assert "gauc leaves out units with one class only: 1,203 in control" in text


def test_names_cannot_restyle_the_screen() -> None:
    out = StringIO()
    print_result(builders.hostile(), Console(file=out, force_terminal=True, width=200))
    assert "[bold]x[/bold]" in out.getvalue()
    assert "\x1b[31m" not in out.getvalue()


def test_str_is_the_text() -> None:
    assert str(builders.ship()) == as_text(builders.ship())


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_loses_columns_and_no_reason(width: int) -> None:
    text = as_text(builders.refused(), width)
    scorecard = text[text.index("Scorecard") : text.index("Rows")]
    assert "no clicks" in scorecard
    assert "no scores" in scorecard


def test_where_there_is_no_lift_the_difference_stands() -> None:
    row = builders.row(lift=None, lift_low=None, lift_high=None, reason="control_near_zero")
    result = builders.result(scorecard=(row,))
    text = as_text(result)
    assert "+0.61 pp [+0.32, +0.90] abs" in text
    assert "unbounded" not in text
    # Markdown had an empty cell there.
    assert "+0.61 pp \\[+0.32, +0.90\\] abs" in markdown(build_study(result))


def test_a_control_is_printed_alike_beside_every_variant() -> None:
    """With digits for each row it was 10.57% beside one variant and 10.6% beside the other."""
    close = builders.row(control=0.1057, treatment=0.1056)
    far = builders.row(variant="challenger", control=0.1057, treatment=0.112)
    text = as_text(replace(builders.three_variants(), scorecard=(close, far)), 200)
    assert text.count("10.57%") == 2
    assert "10.56%" in text
    assert "11.20%" in text


def test_a_log_that_nothing_reads_is_named_on_the_first_screen() -> None:
    log = small_log()
    loaded = abeval.define(
        name="unused",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"impressions": {}, "units": {"path": "people.csv"}, "events": {"orders": {}}},
        metrics=[{"name": "ctr", "role": "goal"}],
        trust={"aa_runs": 0},
    )
    people = pd.DataFrame({"user_id": range(24), "tier": "x"})
    orders = people.assign(ts=log.ts.max())
    result = loaded.analyze(logs={"impressions": log, "units": people, "orders": orders})
    said = result.to_dict()["notes"][0]
    assert said.startswith("Not used: ")
    assert "(people.csv)" in said
    assert "orders" in said
    out = StringIO()
    print_result(result, Console(file=out, width=200), show_all=False)
    assert said in out.getvalue()
