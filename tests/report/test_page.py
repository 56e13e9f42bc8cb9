"""The page: complete without scripts, nothing from outside, nothing that a name can break."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import pytest

from abeval.errors import AbevalError
from abeval.report import summary_html, write_report
from abeval.report.assets import escape_json, write_page_id
from abeval.report.next_step import write_verdicts
from abeval.report.page import list_verdict_lines, render_study
from abeval.report.parts import load_parts
from abeval.results import codes
from abeval.results import format as fmt
from abeval.results.analysis import result_from_dict
from abeval.results.study import Study, build_study
from abeval.results.trust import Check, Verdict
from tests import builders
from tests.builders import HOSTILE, HOSTILE_VARIANT
from tests.report.pages import RESULTS, Element, figures, html, page, parse, result, whole, words

EVERY = pytest.mark.parametrize("name", RESULTS)


def scorecard_rows(name: str) -> list[Element]:
    """Rows of the three role tables."""
    return [e for e in page(name).all("tr") if "data-metric" in e.attributes]


def draws(name: str) -> bool:
    """Whether a page has figures: the forest, or those of days."""
    return any(row.lift is not None for row in result(name).scorecard) or bool(result(name).daily)


def linked(name: str) -> set[str]:
    """What links inside the page lead to; behind the question mark stands what is chosen."""
    links = [e.attributes["href"] for e in page(name).all("a")]
    return {link[1:].partition("?")[0] for link in links if link.startswith("#")}


@EVERY
def test_sections_have_stable_ids_and_links_that_lead_somewhere(name: str) -> None:
    ids = [e.attributes["id"] for e in page(name).elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    assert {"verdict", "trust", "scorecard", "accounting", "methods"} <= set(ids)
    assert ("heat" in ids) == bool(result(name).segments)
    tabs = {e.attributes.get("data-tab") for e in page(name).elements}
    assert ("daily" in tabs, "segments" in tabs, "definition" in tabs) == (
        bool(result(name).daily),
        bool(result(name).segments),
        True,
    )
    assert linked(name) <= set(ids)


@EVERY
def test_three_views_hold_everything(name: str) -> None:
    views = [e for e in page(name).elements if e.attributes.get("class") == "view"]
    assert [view.attributes["id"] for view in views] == ["decision", "explore", "evidence"]
    (navigation,) = page(name).all("nav")
    named = [e.attributes["href"] for e in page(name).all("a") if navigation in e.inside]
    assert named == ["#decision", "#explore", "#evidence"]
    for section in page(name).all("section"):
        assert len([view for view in views if view in section.inside]) == 1
    at = {e.attributes["id"]: e.inside[-1].attributes["id"] for e in page(name).all("section")}
    assert (at["verdict"], at["scorecard"], at["trust"]) == ("decision", "explore", "evidence")


@EVERY
def test_each_metric_has_a_panel_and_only_the_first_is_there_without_scripts(name: str) -> None:
    """The others are packed like what is closed, and built when they are opened."""
    panels = [e for e in page(name).elements if e.attributes.get("class") == "panel"]
    metrics = [e.attributes["data-metric"] for e in panels]
    assert set(metrics) >= {row.metric for row in result(name).scorecard}
    for panel in panels:
        inside = [e for e in page(name).elements if panel in e.inside]
        tabs = [e.attributes["data-tab"] for e in inside if e.attributes.get("class") == "tab"]
        days = {row.metric for row in result(name).daily}
        assert ("daily" in tabs) == (panel.attributes["data-metric"] in days)
        judged = {row.metric for row in result(name).scorecard}
        assert ("definition" in tabs) == (panel.attributes["data-metric"] in judged)
        buttons = [e.attributes["data-tab"] for e in inside if e.tag == "button"]
        assert buttons == tabs
    shown = [e.attributes["data-metric"] for e in panels if "hidden" not in e.attributes]
    goals = [row.metric for row in result(name).scorecard if row.role == "goal"]
    assert shown == goals[:1]
    unpacked = parse(html(name))
    for block in unpacked.elements:
        if block.attributes.get("class") == "panel" and "hidden" in block.attributes:
            assert [e.tag for e in unpacked.elements if block in e.inside] == ["template"]


@EVERY
def test_nothing_comes_from_outside(name: str) -> None:
    assert "://" not in html(name)
    for element in page(name).elements:
        for attribute in ("src", "href", "action", "data", "poster", "srcset"):
            address = element.attributes.get(attribute, "#")
            assert address.startswith(("#", "data:")), (element.tag, attribute)
    assert not page(name).all("link")
    assert "url(" not in html(name)
    assert "@import" not in html(name)


@EVERY
def test_the_policy_knows_the_scripts_by_hash_and_no_address(name: str) -> None:
    (meta,) = [e for e in page(name).all("meta") if "http-equiv" in e.attributes]
    policy = meta.attributes["content"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("'sha256-") == (2 if draws(name) else 1)
    for script in page(name).all("script"):
        kind = script.attributes.get("type")
        if kind is None:
            digest = hashlib.sha256(script.text.encode()).digest()
            assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy
        if script.attributes.get("id") == "plotly-gz":
            plotly = gzip.decompress(base64.b64decode(script.text))
            digest = hashlib.sha256(plotly).digest()
            assert f"'sha256-{base64.b64encode(digest).decode()}'" in policy
            assert b"plotly.js (basic" in plotly


@EVERY
def test_plotly_is_there_once_or_not_at_all(name: str) -> None:
    assert len(page(name).all("script", id="plotly-gz")) == (1 if draws(name) else 0)
    assert len(html(name)) < 650_000


@EVERY
def test_every_scorecard_row_is_plain_html(name: str) -> None:
    rows = scorecard_rows(name)
    assert len(rows) == len(result(name).scorecard)
    for row in result(name).scorecard:
        lift = fmt.format_lift(row.lift, row.lift_low, row.lift_high)
        shown = fmt.typeset_numbers(lift.text) if lift else fmt.MISSING
        assert any(
            row.metric in words(e)
            and shown in words(e)
            and codes.describe_code(row.status) in words(e)
            for e in rows
        )


@EVERY
def test_printed_numbers_agree_with_the_result_to_their_last_digit(name: str) -> None:
    by_text = {}
    pattern = re.compile(r"([+\u2212]?[\d.]+)% \[([+\u2212]?[\d.]+)%, ([+\u2212]?[\d.]+)%\]")
    for element in scorecard_rows(name):
        if match := pattern.search(words(element)):
            by_text[words(element)] = [float(g.replace("\u2212", "-")) for g in match.groups()]
    bounded = [row for row in result(name).scorecard if row.lift_low is not None]
    assert len(by_text) == len(bounded)
    for row in bounded:
        shown = fmt.typeset_numbers(fmt.format_lift(row.lift, row.lift_low, row.lift_high).text)
        printed = next(v for k, v in by_text.items() if shown in k and row.metric in k)
        half = 0.5 * 10.0 ** -len(shown.partition(".")[2].partition("%")[0] if "." in shown else "")
        for number, raw in zip(printed, (row.lift, row.lift_low, row.lift_high), strict=True):
            assert raw is not None
            assert abs(number - 100 * raw) <= half + 1e-9


@EVERY
def test_glyphs_speak(name: str) -> None:
    glyphs = [e for e in page(name).all("svg") if "glyph" in e.attributes["class"]]
    drawn = [row for row in result(name).scorecard if row.lift is not None]
    first = [row for row in drawn if row.role != "diagnostic"]
    segments = sum(row.lift is not None for row in result(name).segments)
    assert len(glyphs) == len(first) + len(drawn) + segments
    for glyph in glyphs:
        assert glyph.attributes["role"] == "img"
        assert "95% interval from" in glyph.attributes["aria-label"]


@EVERY
def test_tables_are_tables(name: str) -> None:
    assert page(name).all("html", lang="en")
    assert len(page(name).all("h1")) == len(page(name).all("main")) == 1
    for table in page(name).all("table"):
        inside = [e for e in page(name).elements if table in e.inside]
        assert sum(e.tag == "caption" for e in inside) == 1
        assert all(e.attributes.get("scope") for e in inside if e.tag == "th")


def test_a_failed_check_hides_every_effect_behind_closed_details() -> None:
    hidden = [
        e
        for e in page("untrusted").elements
        if e.tag == "table" and "scorecard" in e.attributes.get("class", "")
    ] + [
        # Counts of units are no effects.
        e
        for e in page("untrusted").elements
        if e.attributes.get("data-figure", "figure-quality-units") != "figure-quality-units"
    ]
    assert hidden
    for element in hidden:
        gates = [a for a in element.inside if a.attributes.get("class") == "untrusted"]
        assert len(gates) == 1
        assert "open" not in gates[0].attributes
    assert "Show untrusted numbers" in html("untrusted")
    assert "Show untrusted numbers" not in html("ship")


@EVERY
def test_each_figure_has_its_island_and_texts_with_the_same_numbers(name: str) -> None:
    """Of the texts the page makes a table under the figure."""
    islands = {e.attributes["id"]: e for e in page(name).all("script", type="application/json")}
    holders = [e for e in page(name).elements if "data-figure" in e.attributes]
    assert [e.attributes["data-figure"] for e in holders] == list(islands)
    drawn = figures(html(name))
    for trace in (one for figure in drawn.values() for one in figure["data"]):
        if "customdata" in trace:
            assert len(trace["customdata"]) == len(trace["y"])
    daily = {key: figure for key, figure in drawn.items() if key.startswith("daily-")}
    said = [text for one in daily.values() for t in one["data"] for text in t.get("customdata", ())]
    for row in result(name).daily:
        lift = fmt.format_lift(row.lift, row.lift_low, row.lift_high)
        shown = fmt.typeset_numbers(lift.text) if lift else None
        assert shown is None or any(row.cell in text and shown in text for text in said)


def test_accounting_adds_up_in_print() -> None:
    rows = [words(e) for e in page("ship").all("tr")]
    assert (
        "impressions 94\u202f784 92\u202f010 2\u202f774 2\u202f750 duplicate, 24 null unit" in rows
    )


def test_names_stay_names() -> None:
    text, parsed = html("hostile"), page("hostile")
    assert "window.pwned=1</script>" not in text
    assert "<img" not in text
    assert not parsed.all("img")
    assert not [k for e in parsed.elements for k in e.attributes if k.startswith("on")]
    scripts = parsed.all("script")
    assert [e.attributes.get("type") for e in scripts].count(None) == 1
    assert not [e for e in scripts if e.text.strip().startswith("window.pwned")]
    (title,) = parsed.all("h1")
    assert title.text == HOSTILE
    assert any(e.text == "a<b>&c" for e in parsed.all("th"))


def test_a_figure_shows_names_literally() -> None:
    (element,) = page("hostile").all("script", id=f"figure-{write_page_id('daily', HOSTILE)}")
    holders = {e.attributes.get("data-figure") for e in page("hostile").elements}
    assert element.attributes["id"] in holders
    (trace, *arrows) = json.loads(element.text)["data"]
    assert [arrow["name"] for arrow in arrows] in ([], ["goes on beyond the frame"])
    escaped = HOSTILE_VARIANT.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert trace["name"] == escaped
    assert trace["hovertemplate"] == "%{customdata}<extra></extra>"
    assert "<" not in "".join(trace["customdata"])


def test_islands_cannot_end_their_script() -> None:
    raw = json.dumps(["</script><!--", "&amp;", "\u2028\u2029"], ensure_ascii=False)
    safe = escape_json(raw)
    assert not set(safe) & set("<>&\u2028\u2029")
    assert json.loads(safe) == json.loads(raw)


@EVERY
def test_the_same_page_every_time(name: str) -> None:
    assert render_study(build_study(RESULTS[name]())) == html(name)


@pytest.mark.whole
def test_the_same_page_in_another_process_and_from_json() -> None:
    code = (
        "import sys; from tests import builders; from abeval.report.page import render_study;"
        "from abeval.results.study import build_study;"
        "sys.stdout.buffer.write(render_study(build_study(builders.hostile())).encode())"
    )
    other = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert other.stdout.decode() == html("hostile")
    again = result_from_dict(json.loads(RESULTS["hostile"]().to_json()))
    assert render_study(build_study(again)) == html("hostile")


def test_downloads_hold_the_result() -> None:
    links = [e.attributes for e in page("ship").all("a") if "download" in e.attributes]
    csv, packed = (base64.b64decode(link["href"].partition(",")[2]) for link in links)
    assert gzip.decompress(csv).decode() == result("ship").to_csv()
    held = json.loads(gzip.decompress(packed))
    written = json.loads(result("ship").to_json())
    assert held["digest"] != written.pop("digest")
    assert held["analysis"] == written
    plain = [link["data-plain"] for link in links]
    assert plain == ["ranker_v2.csv", "ranker_v2.json"]


def test_words_that_promise_too_much_are_absent() -> None:
    for name in RESULTS:
        assert not re.search(r"\bwinner\b|\bno effect\b", html(name))


@EVERY
def test_the_summary_has_verdict_and_scorecard_and_no_script(name: str) -> None:
    parsed = parse(summary_html(result(name)))
    assert not parsed.all("script")
    assert not parsed.all("a")
    assert "id" not in {k for e in parsed.elements for k in e.attributes}
    said = " ".join(words(e) for e in parsed.all("p"))
    lines, shared = write_verdicts(result(name), None)
    assert fmt.typeset_numbers(shared) in said
    for line in lines:
        assert f"{line.word} {fmt.typeset_numbers(line.sentence)}" in said
    cells = [e for e in parsed.all("td") if e.attributes.get("class") == "status"]
    assert len(cells) == len(result(name).scorecard)


def test_every_part_of_a_study_has_nothing_to_show_of_nothing() -> None:
    names = {field.name for field in fields(Study)}
    for part in load_parts():
        if part.result:
            assert part.result in names, part.id
        else:
            assert tuple(part.build(Study())) == (), part.id


def test_the_report_is_written_whole(tmp_path: Path) -> None:
    path = write_report(result("ship"), tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == html("ship")
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(AbevalError, match="does not exist"):
        write_report(result("ship"), tmp_path / "no" / "report.html")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("r.pdf", "print it to PDF in a browser"),
        ("r.png", "button PNG"),
        ("r.txt", "name it r.html"),
        ("r", "name it r.html"),
    ],
)
def test_a_report_that_is_no_page_is_refused_and_says_what_to_do(
    tmp_path: Path, name: str, hint: str
) -> None:
    with pytest.raises(AbevalError, match="is an HTML page") as refused:
        result("ship").report(tmp_path / name)
    assert hint in str(refused.value.hint)
    assert not (tmp_path / name).exists()


@pytest.mark.skipif(find_spec("kaleido") is not None, reason="kaleido is there")
def test_a_picture_without_its_package_names_it(tmp_path: Path) -> None:
    forest = result("ship").figures["forest"]
    assert forest.layout.title.text == "Every lift"
    with pytest.raises(RuntimeError, match="requires the Kaleido package"):
        forest.write_image(tmp_path / "forest.png")


def test_verdicts_become_lines_with_their_word() -> None:
    one = Verdict("b", "ship", "SHIP: users prefer b. Note: confirm it by an A/B test.")
    (line,) = list_verdict_lines([one])
    assert (line.variant, line.word) == ("", "SHIP")
    assert line.sentence == "Users prefer b. Note: confirm it by an A/B test."
    failed = Verdict("b", "do_not_trust", "DO NOT TRUST: bots: too many.")
    assert list_verdict_lines([failed])[0].sentence == "bots: too many."
    assert [line.variant for line in list_verdict_lines([one, one])] == ["b", "b"]


def test_where_there_is_no_lift_the_difference_stands() -> None:
    row = builders.row(lift=None, lift_low=None, lift_high=None, reason="control_near_zero")
    text = whole(
        render_study(build_study(builders.result(scorecard=(row,), daily=(), segments=())))
    )
    assert 'class="glyph' not in text
    assert "unbounded" not in text
    assert "+0.61 pp [+0.32, +0.90]" in text


def test_passed_checks_fold_away_where_they_are_many() -> None:
    many = tuple(Check(f"check_{i}", "pass", 0.1, 0.2, "fine") for i in range(7))
    assert '<details class="data" open>' in html("ship")
    assert '<details class="data" open>' not in render_study(
        build_study(builders.result(trust=many))
    )
