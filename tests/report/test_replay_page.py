"""The page of a replay: it says what the result says, draws it, and can run nothing of a log's."""

import base64
import gzip
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.report.assets import write_page_id
from abeval.report.figures import Closed, FigureView
from abeval.report.markdown import escape, markdown
from abeval.report.page import _list_downloads, render_study
from abeval.report.replay_page import build_offline_part, draw_curves
from abeval.report.short import tabulate
from abeval.report.tables import TextTable
from abeval.report.terminal import as_text
from abeval.results import format as fmt
from abeval.results.replay import Curve, CurvePoint
from abeval.results.study import build_study
from tests.offline.test_replay import SAMPLE, random_rows, small
from tests.report.pages import close, figures, parse, whole, words

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EVIL = "<img src=x onerror=alert(1)></script>"
METRICS = ["ndcg@3[lin]", "recall@5", "gauc[impressions]", "ece[width]", "coverage@3"]


@pytest.fixture(scope="module")
def full():
    """Models of both logs, and curves, all at once."""
    loaded, logs = small(random_rows(120), name=EVIL, logs={"impressions": {}, "scores": {}})
    log = logs["impressions"]
    keys = log[["request_id", "item_id"]]
    scores = [
        keys.assign(model=model, score=log[column])
        for model, column in (("recall", "b"), ("ranking", "a"))
    ]
    return loaded.replay(
        metrics=METRICS,
        logs={**logs, "scores": pd.concat(scores)},
        curve=4,
    )


@pytest.fixture(scope="module")
def page(full):
    return whole(render_study(build_study(full)))


def section(page, name):
    (part,) = parse(page).all("section", id=name)
    return words(part)


def test_every_model_stands_beside_control_on_every_traffic(full, page):
    said = section(page, "offline")
    for traffic in ("Ranking, traffic of x", "Ranking, traffic of y", "Ranking, all traffic"):
        assert traffic in said
    pair = next(p for p in full.pairs if (p.model, p.traffic) == ("b", "x"))
    assert f"{full.row('ndcg@3[lin]', 'a', 'x').value:.3f}" in said
    assert f"{pair.difference:+.3f}" in said
    assert "not pooled" in said


def test_the_first_family_is_a_table_and_each_has_its_figure_and_all_values_closed(full):
    blocks = [*build_offline_part(full)]
    titles = [one.title for one in blocks if isinstance(one, TextTable)]
    names = ["Ranking", "Classification", "Q_ctr and calibration", "Beyond accuracy"]
    assert titles == ["Ranking, all traffic"]
    closed = {one.summary: one.blocks for one in blocks if isinstance(one, Closed)}
    for name in names:
        inside = closed[f"{name}: every metric on every traffic"]
        # A coverage has no interval, and is compared.
        assert next(one.key for one in inside if isinstance(one, FigureView)) == ("family", name)
        assert f"{name}, all traffic" in [one.title for one in inside if isinstance(one, TextTable)]


def test_terminal_markdown_and_page_have_the_same_tables(full):
    (first,) = (one for one in build_offline_part(full) if isinstance(one, TextTable))
    every = [one for one in tabulate(full, show_all=True).parts if isinstance(one, TextTable)]
    # The page begins with one definition of each metric.
    (same,) = (one for one in every if one.title == first.title)
    assert set(first.rows) <= set(same.rows)
    assert first.headers == same.headers
    printed = [one for one in tabulate(full).parts if isinstance(one, TextTable)]
    text, short, whole_text = markdown(full), as_text(full, 200), as_text(full, 200, show_all=True)
    for table in printed:
        for row in table.rows:
            cells = (escape(fmt.typeset_numbers(cell.strip())) for cell in row)
            assert f"| {' | '.join(cells)} |" in text
            assert all(cell in short for cell in row)
    assert all(cell in whole_text for table in every for row in table.rows for cell in row)
    # A study has a place for the first of them.
    assert printed[0].title in build_study(full).to_markdown()
    assert not any(table.title in build_study(full).to_markdown() for table in printed[1:])


def test_every_part_of_the_result_is_on_the_page(page):
    sections = [s.attributes["id"] for s in parse(page).all("section")]
    assert sections == ["verdict", "offline"]
    assert "OFFLINE ONLY" in section(page, "verdict")
    said = section(page, "offline")
    assert "100% of 240" in said
    assert "items repeated in a request" in said
    assert "requests without relevant" in said
    assert "mean over requests of hits / R" in said


def test_figures_are_the_numbers_of_the_result(full, page):
    drawn = figures(page)
    curve = full.curves[0]
    trace = next(
        t
        for t in drawn[write_page_id("curve", curve.metric, curve.traffic)]["data"]
        if t["name"] == curve.model
    )
    assert trace["y"] == close([point.value for point in curve.points])
    kind = full.calibration[0].kind
    bins = [b for b in full.calibration if (b.model, b.traffic, b.kind) == ("b", "x", kind)]
    trace = next(
        t for t in drawn[write_page_id("calibration", "x", kind)]["data"] if t["name"] == "b"
    )
    assert trace["y"] == close([b.clicks / b.rows for b in bins])
    trace = next(t for t in drawn["family-Ranking"]["data"] if t["name"] == "x, b")
    pair = next(p for p in full.pairs if (p.model, p.traffic) == ("b", "x"))
    assert trace["x"][0] == close(100 * pair.difference / pair.value_control)


def test_no_name_becomes_markup_and_nothing_is_fetched(page):
    assert EVIL not in page
    assert "&lt;img src=x" in page
    assert "script-src 'sha256-" in page.replace("&#39;", "'")
    for element in parse(page).elements:
        for name in ("src", "href"):
            address = element.attributes.get(name, "#")
            assert address.startswith(("#", "data:")), address
    assert "url(" not in page


def test_the_page_carries_the_numbers_along(full, page):
    links = {
        a.attributes["download"]: a.attributes["href"]
        for a in parse(page).all("a")
        if "download" in a.attributes
    }
    (text,) = (href for name, href in links.items() if name.endswith(".json.gz"))
    packed = base64.b64decode(text.partition(",")[2])
    written = json.loads(full.to_json())
    del written["digest"]
    assert json.loads(gzip.decompress(packed))["replay"] == written
    (values,) = (href for name, href in links.items() if name.endswith("replay.csv.gz"))
    table = gzip.decompress(base64.b64decode(values.partition(",")[2])).decode()
    counts = [row.left_out for row in full.rows if row.left_out]
    assert counts
    for (name, count), *_ in counts:
        assert f"{name}: {count}" in table
    assert "(('" not in table
    empty = build_study(replace(full, rows=()))
    assert not [name for name, *_ in _list_downloads(empty) if name.endswith(".csv")]


def test_one_model_alone_has_values_and_no_differences():
    run = pd.DataFrame({"request_id": [1, 1], "item_id": ["a", "b"], "score": [0.9, 0.8]})
    truth = pd.DataFrame({"request_id": [1], "item_id": ["b"]})
    page = whole(render_study(build_study(abeval.evaluate(run, truth, metrics=["mrr@2"]).result)))
    assert "0.500" in section(page, "offline")
    assert "too few units" in section(page, "offline")
    assert 'id="plotly-gz"' not in page


def test_a_curve_is_a_plain_figure_with_its_elbow_ringed():
    points = tuple(CurvePoint(k, v, v - 0.1, v + 0.1, None) for k, v in ((1, 0.2), (2, 0.7)))
    missing = CurvePoint(3, None, None, None, "k_covers_list")
    figure = draw_curves([Curve("%{x}", "x", "recall", (*points, missing), 2)])
    line, ring = go.Figure(figure).data
    assert (list(line.x), list(line.y)) == ([1, 2], [0.2, 0.7])
    assert (list(ring.x), list(ring.y)) == ([2], [0.7])
    assert "%{x}" not in line.hovertemplate.replace("%{x}:", "")


@pytest.mark.whole
def test_command_line_writes_the_page(tmp_path):
    file = tmp_path / "replay.html"
    args = ["replay", str(SAMPLE), "--metric", "mrr@5", "--curve", "3", "--report", str(file)]
    run = CliRunner().invoke(app, args)
    assert run.exit_code == 0, run.output
    text = file.read_text(encoding="utf-8")
    assert "<title>sample: Offline replay</title>" in text
    assert any(name.startswith("curve-") for name in figures(text))


@pytest.mark.whole
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_a_browser_draws_it_under_its_policy(full, tmp_path: Path):
    path = full.report(tmp_path / "page.html")
    run = subprocess.run(  # noqa: S603
        [
            *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"),
            f"--user-data-dir={tmp_path / 'profile'}",
            *("--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom"),
            path.as_uri(),
        ],
        check=True,
        capture_output=True,
    )
    assert 'data-figures="ready"' in run.stdout.decode()
    assert "CONSOLE" not in run.stderr.decode()
