"""Cuts on the page and in the terminal."""

from __future__ import annotations

from dataclasses import replace

from abeval.report.page import page_html
from abeval.report.slices import CELLS, cut_tables, cut_views
from abeval.report.terminal import as_text
from abeval.results.analysis import Result
from abeval.results.effects import CutRow, CutSplit, NoCut
from abeval.results.study import study_of
from tests.builders import HOSTILE, effect, result
from tests.report.pages import whole


def cut(cell: str, lift: float = 0.1, name: str = "ctr", units: int = 4_000) -> CutRow:
    return CutRow(
        metric=name,
        variant="treatment",
        cut="scene",
        cell=cell,
        units_control=units,
        units=units,
        share_control=0.3,
        share=0.5,
        **effect(lift, 0.045, 0.1034),
        p_value=0.01,
        p_adjusted=0.02,
        reason=None,
    )


def with_cuts(*rows: CutRow) -> Result:
    split = CutSplit(
        *("ctr", "treatment", "scene", 2),
        *(-0.003, 0.005, 0.002, 0.008, 0.001, -0.008, -0.009, -0.007, 1e-9),
    )
    lone = replace(split, cut="all", mix=0.0, mix_low=None, mix_high=None, reason="zero_variance")
    return replace(
        result(),
        cuts=rows or (cut("feed"), cut("home", -0.02), cut("", name="gauc")),
        cut_splits=(split, lone),
        without_cuts=(NoCut("sessions_per_user", "it needs whole sessions"),),
    )


def test_the_page_has_a_section_of_cuts() -> None:
    page = whole(page_html(study_of(with_cuts())))
    section = page[page.index('<section id="cuts">') : page.index('<section id="quality">')]
    for text in ("feed", "+10.0%", "By scene", "Diagnostics by scene", "it needs whole sessions"):
        assert text in section
    assert '<section id="cuts">' not in whole(page_html(study_of(result())))


def test_the_terminal_says_what_the_mix_did() -> None:
    text = as_text(with_cuts())
    for part in ("Cuts:", "30% / 50%", "Within cuts, and by their mix", "-0.30 pp", "+0.50 pp"):
        assert part in text
    assert "Cuts" not in as_text(result())
    # A part without an interval says why.
    assert "nothing varies" in " ".join(text.split())


def test_p_is_that_after_holm() -> None:
    (view, _) = cut_views(with_cuts())
    assert {row[-1] for one in view.slices for row in one.table.rows} == {"0.020"}


def test_the_terminal_shows_the_largest_cells() -> None:
    rows = [cut(f"c{i}", units=1000 + i) for i in range(CELLS + 5)]
    table = cut_tables(with_cuts(*rows))[0]
    assert [row[1] for row in table.rows] == [f"c{i}" for i in range(CELLS + 4, 4, -1)]
    assert str(CELLS) in table.lead


def test_names_of_cells_are_text() -> None:
    assert HOSTILE not in whole(page_html(study_of(with_cuts(cut(HOSTILE)))))
