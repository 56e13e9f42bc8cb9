"""Cuts on the page and in the terminal."""

from __future__ import annotations

from dataclasses import replace

from abeval.report.analysis_page import build_heat_maps, build_slice_blocks, convert_cut_rows
from abeval.report.page import render_study
from abeval.report.tables import CELLS, list_cut_tables
from abeval.report.terminal import as_text
from abeval.results.analysis import Result
from abeval.results.effects import CutRow, CutSplit, NoCut
from abeval.results.study import build_study
from tests.builders import HOSTILE, METRICS, effect, result
from tests.report.pages import parse, whole, words


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


def section(shown: Result) -> str:
    """What the page says of cuts."""
    page = parse(whole(render_study(build_study(shown))))
    tabs = [words(e) for e in page.elements if e.attributes.get("data-tab") == "cuts"]
    (heat,) = page.all("section", id="heat")
    return " ".join((*tabs, words(heat)))


def test_panels_of_metrics_have_their_cuts() -> None:
    said = section(with_cuts())
    for text in ("feed", "+10.0% [+5.5%, +14.5%]", "By scene", "(none)", "it needs whole sessions"):
        assert text in said
    assert "4\u202f000 / 4\u202f000" in said
    assert 'data-tab="cuts"' not in whole(render_study(build_study(result())))


def test_each_metric_has_its_cuts() -> None:
    shown = with_cuts()
    blocks = [*build_slice_blocks(shown, convert_cut_rows(shown))]
    assert [block.metric for block in blocks] == ["ctr", "gauc"]
    cells = ["".join(map(str, block.blocks)) for block in blocks]
    assert ["feed" in text for text in cells] == [True, False]
    assert ["(none)" in text for text in cells] == [False, True]


def test_the_terminal_says_what_the_mix_did() -> None:
    text = as_text(with_cuts())
    for part in ("Cuts:", "30% / 50%", "Within cuts, and by their mix", "-0.30 pp", "+0.50 pp"):
        assert part in text
    assert "Cuts" not in as_text(result())
    # A part without an interval says why.
    assert "nothing varies" in " ".join(text.split())


def test_p_is_that_after_holm() -> None:
    assert {row.p_value for row in convert_cut_rows(with_cuts())} == {0.02}
    rows = [words(e) for e in parse(whole(render_study(build_study(with_cuts())))).all("tr")]
    assert [row[-5:] for row in rows if row.startswith(("feed", "home"))] == ["0.020"] * 2


def test_the_terminal_shows_the_largest_cells() -> None:
    rows = [cut(f"c{i}", units=1000 + i) for i in range(CELLS + 5)]
    table = list_cut_tables(with_cuts(*rows))[0]
    assert [row[1] for row in table.rows] == [f"c{i}" for i in range(CELLS + 4, 4, -1)]
    assert str(CELLS) in table.lead


def test_names_of_cells_are_text() -> None:
    assert HOSTILE not in whole(render_study(build_study(with_cuts(cut(HOSTILE)))))


def test_a_table_of_lifts_has_every_cut_beside_the_whole() -> None:
    """Shaded where the interval excludes zero, and nowhere else."""
    clear, open_, harm = cut("feed"), cut("home", 0.02), cut("shop", -0.1)
    shown = with_cuts(clear, open_, harm)
    (heat,) = build_heat_maps(shown, convert_cut_rows(shown))
    assert heat.summary == "By scene"
    page = parse(str(heat.blocks[0]))
    heads = [words(e) for e in page.all("th", scope="colgroup")]
    assert heads == ["all", "feed", "home", "shop"]
    (row,) = [e for e in page.all("tr") if words(e).startswith("ctr")]
    cells = [e for e in page.all("td") if row in e.inside]
    assert [words(e) for e in cells] == ["+5.9%", "+10.0%", "+2.0%", "\u221210.0%"]
    shades = [e.attributes["class"].removeprefix("number").strip() for e in cells]
    assert shades == ["good", "good", "", "bad"]
    assert ["style" in e.attributes for e in cells] == [True, True, False, True]
    assert cells[2].attributes["title"] == "+2.0% [-2.5%, +6.5%]"


def test_what_is_better_when_it_falls_is_shaded_so() -> None:
    latency = replace(METRICS[-1], name="ctr", direction="decrease")
    shown = replace(with_cuts(cut("feed")), metrics=(latency,))
    (heat,) = build_heat_maps(shown, convert_cut_rows(shown))
    assert heat.blocks[0].count('class="number bad"') == 2
    assert 'class="number good"' not in heat.blocks[0]
