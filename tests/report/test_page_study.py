"""One page of all that is known: from the experiment by one command, and again from its JSON."""

from __future__ import annotations

import gzip
import json
import math
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import numpy as np
import plotly.graph_objects as go
import pytest
from typer.testing import CliRunner

import abeval
from abeval.aggregates.collect import collect
from abeval.brief import write_brief_json
from abeval.cli.main import app
from abeval.engines import sql as queries
from abeval.experiment.metrics import find_metrics_by_name
from abeval.inference.judge import judge
from abeval.logs.run import open_run
from abeval.offline.metrics import list_default_metrics
from abeval.report.agreement_page import write_standings
from abeval.report.figures import Beside, Block, Closed, MetricBlocks, list_figures
from abeval.report.markdown import markdown
from abeval.report.page import _build_parts, render_study
from abeval.report.parts import load_parts
from abeval.report.tables import TextTable
from abeval.results import format as fmt
from abeval.results.study import Study, build_study, read_results
from abeval.stats.catalogue import compare_all
from tests import builders, sample
from tests.agreement.test_agree_sample import GOLDEN, golden_of, same
from tests.report.numbers import NUMBER, Known, plain, printed, shares
from tests.report.numbers import Result as NumbersOf
from tests.report.pages import Page, close, figures, parse, whole, words

pytestmark = pytest.mark.whole


FILE = Path(__file__).parents[2] / "sample_logs" / "experiment.toml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the sample, as the command wrote it, and its JSON."""
    folder = tmp_path_factory.mktemp("study")
    page, file = folder / "page.html", folder / "study.json"
    args = ["analyze", str(FILE), "--report", str(page), "--report", str(file)]
    run = CliRunner().invoke(app, args)
    assert run.exit_code == 0, run.output
    (folder / "screen.txt").write_text(run.output, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def study(folder: Path) -> Study:
    return read_results([folder / "study.json"])


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return whole((folder / "page.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def parsed(page: str) -> Page:
    return parse(page)


def test_every_part_that_the_sample_has_data_for_is_there(parsed: Page) -> None:
    ids = [e.attributes["id"] for e in parsed.all("section")]
    missing = {part.id for part in load_parts()} - set(ids)
    # Tabs of panels are no sections; `metrics` stands in where there is no scorecard.
    tabs = {part.id for part in load_parts() if part.view == "metric"}
    assert missing == {"design", "metrics", *tabs}
    shown = {e.attributes["data-tab"] for e in parsed.elements if "data-tab" in e.attributes}
    assert shown == tabs - {"cuts", "clock"}
    every = [e.attributes["id"] for e in parsed.elements if "id" in e.attributes]
    assert len(every) == len(set(every))
    links = [a.attributes["href"] for a in parsed.all("a")]
    assert {link[1:].partition("?")[0] for link in links if link.startswith("#")} <= set(every)


def test_the_same_page_from_its_json(folder: Path, study: Study) -> None:
    assert render_study(study) == (folder / "page.html").read_text(encoding="utf-8")


def test_the_download_has_all_but_windows_and_says_so(
    folder: Path, study: Study, parsed: Page
) -> None:
    """They weigh more than all else; the JSON of the command has them."""
    (link,) = [a for a in parsed.all("a") if a.attributes.get("data-plain", "").endswith(".json")]
    assert words(link) == "results without windows (JSON) .gz"
    again = folder / "again.json"
    again.write_bytes(gzip.decompress(b64decode(link.attributes["href"].partition(",")[2])))
    assert study.time is not None
    kept = replace(study, time=replace(study.time, windows=(), looks=()))
    assert read_results([again]).to_dict() == kept.to_dict()
    # Without scripts a download is compressed, and its link says so.
    plain = parse(whole(render_study(build_study(builders.ship()))))
    names = [words(a) for a in plain.all("a") if "download" in a.attributes]
    assert names == ["scorecard (CSV) .gz", "results (JSON) .gz"]


def test_results_of_several_commands_make_one_page(folder: Path, study: Study) -> None:
    parts = {
        **{"a": study.analysis, "t": study.time, "r": study.replay, "x": study.aa},
        "g": study.agreement,
    }
    files = []
    for name, result in parts.items():
        assert result is not None
        files.append(folder / f"{name}.json")
        files[-1].write_text(result.to_json(), encoding="utf-8")
    page = folder / "composed.html"
    args = ["report", *map(str, files), "--output", str(page)]
    assert CliRunner().invoke(app, args).exit_code == 0
    assert read_results(files).to_dict() == build_study(*parts.values()).to_dict()
    ids = {e.attributes["id"] for e in parse(page.read_text(encoding="utf-8")).all("section")}
    sections = {part.id for part in load_parts() if part.view != "metric"}
    assert sections - ids == {"design", "metrics"}


def test_an_agreement_makes_its_parts_of_the_page_by_itself(folder: Path, study: Study) -> None:
    assert study.agreement is not None
    file, page, again = folder / "agreement.json", folder / "agreement.html", folder / "same.html"
    file.write_text(study.agreement.to_json(), encoding="utf-8")
    run = CliRunner().invoke(app, ["report", str(file), "--output", str(page)])
    assert run.exit_code == 0, run.output
    text = page.read_text(encoding="utf-8")
    assert study.agreement.report(again).read_text(encoding="utf-8") == text
    sections = {e.attributes["id"]: words(e) for e in parse(whole(text)).all("section")}
    assert list(sections) == ["verdict", "causes"]
    assert sections["verdict"].startswith("What was promised and what came")
    assert "What was promised" not in sections["causes"]
    assert "offline and online contradict each other" in sections["verdict"].lower()
    assert "auc is worse offline" in sections["verdict"]
    assert "Why: Position accounts for 100% of the gap: the" in sections["verdict"]
    assert "Next: Decide by the online result. A model looks best" in sections["verdict"]
    assert "1. Position: found, 100% of the gap" in sections["causes"]
    assert "Logged difference" in sections["causes"]
    assert {"slope", "bill", "position"} == {key[0] for key in study.agreement.figures}


def test_slopes_go_from_control_over_own_traffic_to_the_effect_online(study: Study) -> None:
    assert study.agreement is not None
    (concluded,) = study.agreement.explanations
    figure = study.agreement.figures["slope", "treatment"]
    rows = {row.offline: row for row in study.agreement.rows if row.online == concluded.online}
    assert figure.data[-1].name == concluded.offline
    for trace in figure.data:
        row = rows[trace.name]
        ends = dict(zip(trace.x, trace.y, strict=True))
        assert ends["control's traffic"] == row.offline_strength
        assert ends["online"] == row.online_strength
        (own,) = (one for one in row.others if one.traffic == "treatment")
        if own.low is not None and own.high is not None and "its own traffic" in ends:
            assert abs(ends["its own traffic"]) == pytest.approx(
                abs(own.difference or 0) / ((own.high - own.low) / 2)
            )
    # A half-width of 1 or more excludes zero: the trap is that the signs differ.
    assert figure.data[-1].y[0] < -1 < 1 < figure.data[-1].y[1]


def test_the_bill_goes_from_what_was_promised_to_what_came(study: Study) -> None:
    assert study.agreement is not None
    gap = study.agreement.explanations[0].gap
    assert gap is not None
    (bars,) = study.agreement.figures["bill", "treatment"].data
    steps = [gap.promised, *(part.points for part in gap.causes), gap.unexplained, gap.came]
    assert list(bars.x) == pytest.approx([100 * (step or 0) for step in steps])
    # Each bar stands where the one before it ended; the last one from zero, as high as all.
    tops = [base + y for base, y in zip(bars.base, bars.x, strict=True)]
    assert list(bars.base) == pytest.approx([0, *tops[:-2], 0])
    assert tops[-1] == pytest.approx(tops[-2])


def test_an_agreement_without_a_cause_names_what_is_missing(study: Study) -> None:
    """On the page, in the terminal and in Markdown the same words."""
    assert study.agreement is not None
    causes = tuple(cause for cause in study.agreement.causes if cause.status != "found")
    result = replace(study.agreement, causes=causes)
    (first,) = parse(render_study(Study(agreement=result))).all("section", id="verdict")
    for text in (words(first), Study(agreement=result).to_markdown(), str(result)):
        said = " ".join(text.replace("\\", "").split())
        checked = sum(cause.status == "not found" for cause in causes)
        assert f"cannot be known yet: none of the {checked} causes that could" in said.lower()
        assert "To know why, add propensity, " in said


def test_the_study_agrees_as_the_command_does(study: Study) -> None:
    """One reading of the logs serves the replay and the agreement, which name other metrics."""
    assert study.agreement is not None
    assert study.replay is not None
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    now = json.loads(json.dumps(golden_of(study.agreement)))
    assert list(now["standings"]) == list(golden["standings"])
    assert same(now, golden)
    assert [name for name, _ in study.replay.definitions] == [
        metric.id for metric in list_default_metrics((1, 5, 10))
    ]


def test_the_first_screen_says_that_offline_and_online_contradict(
    study: Study, parsed: Page
) -> None:
    said = "auc offline and ctr online contradict each other; the first cause is position."
    (first,) = parsed.all("section", id="verdict")
    assert said in words(first)
    assert said in study.to_markdown()
    agreement = replace(study.agreement, explanations=())  # type: ignore[type-var]
    other = render_study(Study(analysis=study.analysis, agreement=agreement))
    (first,) = parse(other).all("section", id="verdict")
    assert "contradict" not in words(first)


def test_what_was_promised_and_what_came_is_a_line_under_the_verdict(
    folder: Path, study: Study, parsed: Page
) -> None:
    """On the page, in the terminal, in Markdown and in the brief the same words."""
    assert study.analysis is not None
    assert study.agreement is not None
    gap = study.agreement.gap
    assert gap is not None
    assert gap.promised is not None
    first = gap.causes[0]
    points = f"{first.name} {100 * first.points:+.1f} points"
    said = f"Promised {gap.promised:+.1%}, came {gap.came:+.1%}, {points}."
    screen = (folder / "screen.txt").read_text(encoding="utf-8").split("Trust:")[0]
    (on_page,) = parsed.all("section", id="verdict")
    for text in (screen, words(on_page), study.to_markdown().replace("\\", "")):
        assert said in " ".join(text.replace("−", "-").split())
    brief = json.loads(write_brief_json(study.analysis, study.outlook, write_standings(study)))
    (line,) = brief["offline"]
    assert line.endswith(said)
    assert "offline" not in json.loads(write_brief_json(study.analysis))


@pytest.mark.slow
def test_the_page_of_a_replay_begins_with_what_was_promised(tmp_path: Path) -> None:
    """It is that of `agree`, of one reading of the logs; the replay itself stays as it is."""
    page, file = tmp_path / "page.html", tmp_path / "replay.json"
    late = "late: position > 5"
    args = ["replay", str(FILE), "--metric", "mrr@5", "--curve", "3", "--where", late]
    run = CliRunner().invoke(app, [*args, "--json", str(file), "--report", str(page)])
    assert run.exit_code == 0, run.output
    sections = {e.attributes["id"]: words(e) for e in parse(whole(page.read_text())).all("section")}
    assert next(iter(sections)) == "verdict"
    assert sections["verdict"].startswith("What was promised and what came")
    gap = sample.agreement().gap
    assert gap is not None
    for value in (gap.promised, gap.came, gap.causes[0].points, gap.unexplained):
        assert f"{value:+.1%}" in sections["verdict"].replace("−", "-")
    assert "late" in sections["offline"]
    metrics = {"where": {"late": "position > 5"}, "metrics": ["mrr@5"], "curve": 3}
    alone = abeval.load(FILE).replay(**metrics)  # type: ignore[arg-type]
    assert file.read_text(encoding="utf-8") == alone.to_json()


def test_a_replay_by_another_relevance_has_a_page_without_a_promise(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    args = ["replay", str(FILE), "--metric", "auc", "--relevance", "long_click"]
    run = CliRunner().invoke(app, [*args, "--report", str(page)])
    assert run.exit_code == 0, run.output
    ids = [e.attributes["id"] for e in parse(whole(page.read_text())).all("section")]
    assert ids[:2] == ["verdict", "offline"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is no result"),
        ('{"a": 1}', "is none of the results"),
        ('{"scorecard": 1}', "another version"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(content, encoding="utf-8")
    run = CliRunner().invoke(app, ["report", str(file), "--format", "md"])
    assert isinstance(run.exception, abeval.AbevalError)
    assert message in str(run.exception)


def test_two_of_one_kind_or_of_two_experiments_are_refused(tmp_path: Path, study: Study) -> None:
    one, two = tmp_path / "1.json", tmp_path / "2.json"
    one.write_text(builders.ship().to_json(), encoding="utf-8")
    assert study.time is not None
    two.write_text(study.time.to_json(), encoding="utf-8")
    with pytest.raises(abeval.LogError, match="a second result of analysis"):
        read_results([one, one])
    with pytest.raises(abeval.LogError, match="different experiments"):
        read_results([one, two])
    run = CliRunner().invoke(app, ["report", str(one), "--format", "md", "--output", str(one)])
    assert "would replace" in str(run.exception)
    with pytest.raises(abeval.AbevalError, match="a page needs a file"):
        CliRunner().invoke(app, ["report", str(one)], catch_exceptions=False)


def test_figures_are_the_numbers_of_the_result(study: Study) -> None:
    drawn, time, outlook = study.figures, study.time, study.outlook
    assert time is not None
    assert outlook is not None
    assert study.analysis is not None
    rolling = [r for r in time.windows if r.metric == "ctr" and r.kind == "rolling"]
    lines = {trace.name: trace for trace in drawn["windows", "ctr"].data}
    own = [row for row in rolling if row.days == 7 and row.axis == "calendar"]
    assert list(lines["treatment"].x) == [row.end for row in own]
    assert list(lines["treatment"].y) == [100 * (row.lift or 0) for row in own]
    power = {trace.name: trace for trace in drawn["power", "ctr"].data}
    points = outlook["ctr"].points
    assert list(power["treatment"].x) == [days for days, _ in points]
    assert list(power["treatment"].y) == [100 * effect for _, effect in points]
    line = next(t for t in drawn["cumulative", "ctr"].data if t.name == "treatment")
    assert line.y[-1] == pytest.approx(100 * (study.analysis["ctr"].lift or 0))


def test_every_metric_has_its_figures(study: Study) -> None:
    assert study.analysis is not None
    assert study.time is not None
    keys = set(study.figures)
    lifts = [row.metric for row in study.analysis.scorecard if row.lift is not None]
    windowed = {row.metric for row in study.time.windows}
    for metric in lifts:
        assert (("cumulative", metric) in keys) == (metric in windowed)
        assert (("windows", metric) in keys) == any(
            row.metric == metric and row.kind == "rolling" and row.lift is not None
            for row in study.time.windows
        )
    assert {key[1] for key in keys if key[0] == "daily"} == {r.metric for r in study.analysis.daily}
    assert study.outlook is not None
    drawn = {one.metric for one in study.outlook.metrics if len(one.points) > 1}
    assert {key[1] for key in keys if key[0] == "power"} == drawn
    assert study.aa is not None
    assert {key[1] for key in keys if key[0] == "aa"} == {row.metric for row in study.aa.metrics}


def test_a_metric_leads_to_its_panel(study: Study, parsed: Page) -> None:
    assert study.analysis is not None
    (lifts,) = parsed.all("section", id="scorecard")
    rows = [e for e in parsed.all("tr") if "data-metric" in e.attributes]
    links = [a.attributes["href"] for a in parsed.all("a") if any(row in a.inside for row in rows)]
    assert all(lifts in row.inside for row in rows)
    metrics = dict.fromkeys(row.metric for row in study.analysis.scorecard)
    assert sorted(links) == sorted(f"#explore?metric={quote(name)}" for name in metrics)
    panels = [e.attributes["data-metric"] for e in parsed.all("div", class_="panel")]
    assert sorted(panels) == sorted(metrics)


def test_the_page_draws_the_figures_of_the_result_to_four_digits(study: Study, page: str) -> None:
    drawn = figures(page)
    addresses = {}
    for part in _build_parts(study):
        for view in list_figures(part.blocks):
            addresses[view.anchor] = view.figure
    assert set(drawn) == set(addresses)
    for anchor, figure in addresses.items():
        whole_numbers, kept = json.loads(json.dumps(figure)), drawn[anchor]
        assert [*texts(kept)] == [*texts(whole_numbers)]
        for one, other in zip(plain(kept), plain(whole_numbers), strict=True):
            assert one == close(other), anchor


def texts(value: Any) -> Iterator[str]:
    """Every key and text of a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)


def test_every_number_of_a_figure_is_one_of_the_results(study: Study) -> None:
    """To the last digit: values, and both ends of intervals."""
    known = Known(plain(study.to_dict()))
    assert study.analysis is not None
    assert study.replay is not None
    shares_of = [b.units / v.units for v in study.analysis.unit_aucs for b in v.bins]
    rates = [b.clicks / b.rows for b in study.replay.calibration if b.rows]
    # Offline differences are drawn as shares of the baseline's value.
    quotients = [
        end / abs(p.value_control)
        for p in study.replay.pairs
        if p.value_control
        for end in (p.difference, p.low, p.high)
        if end is not None
    ]
    derived = {
        "gauc": Known(shares_of),
        "calibration": Known(rates),
        "family": Known(quotients),
        "cumulative": Known(always_ends(study)),
        "srm": Known(entered_shares(study)),
        "slope": Known(strengths(study)),
        "catalog": Known(catalogue_differences(study)),
    }
    checked = 0
    for key, figure in study.figures.items():
        also = derived.get(key[0], known)
        for trace in figure.data:
            if trace.name == "goes on beyond the frame" or str(trace.name).endswith("as planned"):
                continue
            # The other axis has places: bins, days, rows of a forest.
            along = trace.x if key[0] == "family" else trace.y
            values = [v for v in np.ravel(np.array(along, dtype=object)) if isinstance(v, float)]
            ends = [v for v in ends_of(trace) if v is not None]
            assert [v for v in (*values, *ends) if not (known.has(v) or also.has(v))] == [], key
            checked += len(values) + len(ends)
    assert checked > 2000


def always_ends(study: Study) -> Iterator[float]:
    """Ends that hold at every look, as shares of control up to the same day."""
    assert study.time is not None
    controls = {
        (row.metric, row.end): abs(row.control)
        for row in study.time.windows
        if (row.axis, row.kind) == ("calendar", "cumulative") and row.control
    }
    for look in study.time.looks:
        for end in (look.always_low, look.always_high):
            if end is not None and (look.metric, look.day) in controls:
                yield end / controls[look.metric, look.day]


def strengths(study: Study) -> Iterator[float]:
    """Offline differences in half-widths of their intervals."""
    assert study.agreement is not None
    for one in (one for row in study.agreement.rows for one in row.others):
        if one.difference is not None and one.low is not None and one.high is not None:
            strength = one.difference / ((one.high - one.low) / 2)
            yield from (strength, -strength)


def catalogue_differences(study: Study) -> Iterator[float]:
    """Coverage and impressions of treatment minus those of control, at the same place."""
    assert study.analysis is not None
    control, treatment = study.analysis.catalogue_uses
    covered = dict(zip(control.units, control.coverage, strict=True))
    for units, share in zip(treatment.units, treatment.coverage, strict=True):
        if units in covered:
            yield share - covered[units]
    for ours, theirs in zip(control.impression_shares, treatment.impression_shares, strict=True):
        yield theirs - ours


def entered_shares(study: Study) -> Iterator[float]:
    """The share of each variant among the units up to a day."""
    assert study.time is not None
    for row in study.time.windows:
        if row.kind == "cumulative" and row.units + row.units_control:
            for units in (row.units, row.units_control):
                yield units / (row.units + row.units_control)


def test_the_band_of_the_split_is_where_the_planned_one_lies(study: Study) -> None:
    """A share of n units has a standard error of sqrt(p (1 - p) / n)."""
    band, line = study.figures["srm", "entries"].data
    assert study.analysis is not None
    totals = [
        sum(int(n.replace("\u202f", "").replace(",", "")) for n in (said,))
        for said in (text.split(": ")[1].split(" units")[0] for text in line.customdata)
    ]
    days = len(line.x)
    assert list(band.x[:days]) == list(line.x)
    for count, share, low, high in zip(
        totals, line.y, band.y[:days], reversed(band.y[days:]), strict=True
    ):
        half = 1.959964 * math.sqrt(0.25 / (100 * count / share))
        assert (low, high) == pytest.approx((50 - 100 * half, 50 + 100 * half), rel=1e-4)


def ends_of(trace: go.Scatter) -> list[float | None]:
    """The ends of the error bars of a trace."""
    found: list[float | None] = []
    for values, bars in ((trace.y, trace.error_y), (trace.x, trace.error_x)):
        for sign, lengths in ((1, bars.array), (-1, bars.arrayminus)) if bars else ():
            pairs = zip(values or (), () if lengths is None else lengths, strict=False)
            found += [None if n is None or v is None else v + sign * n for v, n in pairs]
    return found


def test_every_number_of_a_table_is_one_of_its_record(study: Study) -> None:
    """Each row's numbers are of records with the names of the row: metric, variant, model, cell."""
    result, checked = NumbersOf(study.to_dict()), 0
    for part in _build_parts(study):
        for table in tables_of(part.blocks):
            for row in (
                table.rows if part.id != "stability" and table.title != "Definitions" else ()
            ):
                names = frozenset(cell for cell in row if result.named(cell))
                known, quotients = result.of(names), shares(table.rows, row)
                for cell in row:
                    wrong = [
                        number
                        for number, half in printed("" if cell in names else cell)
                        if not (known.has(number, half) or quotients.has(number, half))
                    ]
                    assert not wrong, (part.id, table.title, row)
                    checked += 1
    assert checked > 4000


def tables_of(blocks: Iterable[Block]) -> Iterator[TextTable]:
    for block in blocks:
        if isinstance(block, Beside | Closed | MetricBlocks):
            yield from tables_of(block.blocks)
        elif isinstance(block, TextTable):
            yield block


def test_every_number_that_a_point_says_is_one_of_its_metric(study: Study) -> None:
    """The page lists these texts as the numbers of a figure."""
    result, checked, drawn = NumbersOf(study.to_dict()), 0, study.figures
    named = re.compile("|".join(map(re.escape, names_with_digits(result))) or "$^")
    for key in (key for key in drawn if key[0] in BY_METRIC):
        known, figure = said_of(key, result, study), drawn[key]
        for trace in figure.data:
            for text in trace.customdata if trace.customdata is not None else ():
                wrong = [
                    (number, half)
                    for number, half in printed(named.sub("", str(text)))
                    if not known.has(number, half)
                ]
                assert not wrong, (key, trace.name, text)
                checked += 1
    assert checked > 1000


BY_METRIC = ("cumulative", "daily", "windows", "entry", "power", "aa")


def said_of(key: tuple[str, ...], result: NumbersOf, study: Study) -> Known:
    """What the points of a figure may say."""
    if key[0] != "aa":
        own = result.of(frozenset(name for name in key[1:] if name in result.having))
        # A boundary is kept as z, and said as p.
        looks = study.time.looks if study.time is not None else ()
        bounds = {one.bound for one in looks if one.bound is not None}
        return Known([*own.numbers, *(math.erfc(z / math.sqrt(2)) for z in bounds)])
    assert study.aa is not None
    counts = study.aa.histograms[key[1]]
    return Known([*counts, *(i / len(counts) for i in range(len(counts) + 1))])


def names_with_digits(result: NumbersOf) -> list[str]:
    """Names, the longest first, that a text may have besides its numbers."""
    names = (name for name in result.having if NUMBER.search(name) and not NUMBER.fullmatch(name))
    return sorted(names, key=len, reverse=True)


def test_every_number_of_the_markdown_and_of_the_terminal_is_one_of_the_results(
    study: Study,
) -> None:
    """Rows by their metric; sentences by the whole result, its own sentences and sums of rows."""
    result = NumbersOf(study.to_dict())
    accounts = study.analysis.accounting  # type: ignore[union-attr]
    said = [number for word in result.having for number, _ in printed(word)]
    sentences = Known([*said, *(float(log.read - log.used) for log in accounts)])
    names = {metric.name for metric in study.analysis.metrics}  # type: ignore[union-attr]
    text = f"{study.to_markdown()}\n{study.analysis}".replace("\\", "")
    for line in text.splitlines():
        own = frozenset(name for name in names if re.search(rf"(?<![\w@]){name}(?![\w@\[])", line))
        known = result.of(own) if len(own) == 1 and line.lstrip().startswith(("|", *own)) else None
        for number, half in printed(line):
            if known is not None:
                assert known.has(number, half), line
            else:
                assert result.of(frozenset()).has(number, half) or sentences.has(number), line


def test_methods_hold_what_makes_the_result_again(study: Study, parsed: Page) -> None:
    assert study.provenance is not None
    logs = {"impressions", "clicks", "items", "exposures", "training"}
    assert {file.log for file in study.provenance.inputs} == logs
    for name, sql in study.provenance.queries:
        run = CliRunner().invoke(app, ["tools", "sql", name])
        assert run.output == sql
    (methods,) = parsed.all("section", id="methods")
    tabs = [e for e in parsed.elements if e.attributes.get("data-tab") == "definition"]
    assert any("Welch 1947" in words(tab) for tab in tabs)
    assert f"duckdb {dict(study.provenance.versions)['duckdb']}" in words(methods)
    assert study.provenance.experiment.strip() in methods.text


def test_every_metric_has_the_sql_that_summed_it_beside_its_method(
    study: Study, parsed: Page
) -> None:
    assert study.analysis is not None
    queries = Path(__file__).parents[2] / "queries"
    rows = {e.attributes.get("id"): e for e in parsed.all("dl")}
    for metric in study.analysis.metrics:
        row = rows[f"def-{metric.name}"]
        assert f"abeval tools sql EXPERIMENT {metric.name}" in row.text
        tab = row.inside[-1]
        (title,) = [e.text for e in parsed.all("summary") if tab in e.inside]
        (text,) = [e.text for e in parsed.all("pre") if tab in e.inside]
        assert title.endswith(metric.query)
        assert text.strip() == (queries / f"{metric.query}.sql").read_text("utf-8").strip()


def test_the_file_and_the_sql_of_the_page_give_the_same_result_again(
    study: Study, parsed: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the text of the page alone: other queries are not there."""
    (methods,) = parsed.all("section", id="methods")
    file, *sql = [e.text for e in parsed.all("pre") if methods in e.inside]
    assert study.provenance is not None
    for (name, _), text in zip(study.provenance.queries, sql, strict=True):
        one = tmp_path / "queries" / f"{name}.sql"
        one.parent.mkdir(parents=True, exist_ok=True)
        one.write_text(text, encoding="utf-8")
    for log in FILE.parent.iterdir():
        (tmp_path / log.name).symlink_to(log)
    (tmp_path / FILE.name).unlink()
    (tmp_path / FILE.name).write_text(file, encoding="utf-8")
    cached = (queries._read_query_file, queries.query_names, queries.is_query)
    monkeypatch.setattr(queries, "_FOLDER", tmp_path / "queries")
    for function in cached:
        function.cache_clear()
    try:
        args = ["analyze", str(tmp_path / FILE.name), "--json", str(tmp_path / "again.json")]
        run = CliRunner().invoke(app, args)
    finally:
        for function in cached:
            function.cache_clear()
    assert run.exit_code == 0, run.output
    assert study.analysis is not None
    assert (tmp_path / "again.json").read_text(encoding="utf-8") == study.analysis.to_json()


def test_methods_say_what_was_set_for_each_row(study: Study, parsed: Page) -> None:
    assert study.analysis is not None
    assert study.provenance is not None
    (methods,) = parsed.all("section", id="methods")
    for row in study.analysis.scorecard:
        (tab,) = (words(e) for e in parsed.all("dl", id=f"def-{row.metric}"))
        assert f"{row.method}: " in tab
        assert f"{row.lift_method}: " in tab
        draws = "" if row.draws is None else f"{fmt.format_count(row.draws)}, seed {row.seed}"
        assert fmt.typeset_numbers(draws) in tab
        assert ("seed" in tab) == (row.draws is not None)
    said = words(methods)
    for file in study.provenance.inputs:
        rows = duckdb.sql(f"select count(*) from '{FILE.parent / file.path}'").fetchall()
        assert rows == [(file.rows,)]
        assert file.sha256 in said
    assert "A/A replays 10\u202f000, seed 0" in said


def test_the_draws_of_a_row_and_their_seed_give_its_p_value_again() -> None:
    """With another seed they do not."""
    loaded = abeval.load(FILE)
    experiment = loaded.experiment
    with open_run(experiment, {}) as run:
        aggregates = collect(run, find_metrics_by_name(experiment, ["gini"]))
    row = judge(experiment, find_metrics_by_name(experiment, ["gini"]), aggregates)["gini"]
    arms = [aggregates.incidence(name) for name in ("control", "treatment")]
    assert row.draws is not None
    assert row.seed is not None
    again = [
        compare_all(*arms, ["gini"], 0.05, row.draws, seed)["gini"].effect.p_value
        for seed in (row.seed, 1)
    ]
    assert again[0] == row.p_value != again[1]


def test_the_power_of_the_page_is_that_of_the_command(study: Study) -> None:
    assert study.outlook is not None
    assert study.analysis is not None
    one = study.outlook["ctr"]
    loaded = abeval.load(FILE)
    assert loaded.power(metrics=["ctr"])["ctr"].mde == one.mde == study.analysis["ctr"].mde
    days = loaded.power(metrics=["ctr"], mde=one.target)["ctr"].days
    assert days == one.target_days


def test_figures_are_for_taking(study: Study) -> None:
    assert study.analysis is not None
    assert study.time is not None
    figures = study.figures
    figure = figures["cumulative", "ctr"]
    figure.update_layout(title="mine")
    assert figure.layout.title.text == "mine"
    assert ("windows", "ctr") in study.time.figures
    assert figure.layout.title.text == "mine"
    assert [key[0] for key in study.analysis.figures][:2] == ["forest", "daily"]
    # Each has its title, and room for it.
    assert all(figures[key].layout.title.text for key in figures)
    with pytest.raises(KeyError, match="there are"):
        study.time.figures["nothing"]


def test_markdown_says_what_the_page_says(study: Study) -> None:
    text = study.to_markdown()
    assert text.startswith("## sample\n\n")
    assert "\n\n**SHIP** ctr +13.1%" in text
    assert "**Next:** Roll out treatment." in text
    assert study.analysis is not None
    for row in study.analysis.scorecard:
        if row.role != "diagnostic":
            lift = fmt.format_lift(row.lift, row.lift_low, row.lift_high)
            assert lift is not None
            shown = fmt.typeset_numbers(lift.text).replace("[", r"\[").replace("]", r"\]")
            assert shown in text
    hostile = markdown(build_study(builders.hostile()))
    assert re.search(r"(?<!\\)<", hostile) is None
    assert len(hostile.splitlines()) < 30


def test_what_could_not_be_run_is_said(tmp_path: Path) -> None:
    """A table of one row a unit has no time and no scores: the page says so, and has the rest."""
    table = tmp_path / "units.csv"
    lines = [f"{i},{'ab'[i % 2]},{i % 7 + (i % 2)}" for i in range(400)]
    table.write_text("user,group,spent\n" + "\n".join(lines) + "\n", encoding="utf-8")
    file = tmp_path / "x.toml"
    file.write_text(
        'name = "x"\nunit = "user"\ncontrol = "a"\n[variants.a]\n[variants.b]\n[logs.units]\n'
        f'path = "{table.name}"\ncolumns = {{ unit_id = "user", variant = "group" }}\n'
        '[[metrics]]\nname = "spent"\nvalue = "spent"\nrole = "goal"\n',
        encoding="utf-8",
    )
    study = abeval.load(file).study()
    assert study.analysis is not None
    assert {what for what, _ in study.left_out} == {
        "effects over time",
        "offline replay",
        "agreement",
    }
    (first,) = parse(whole(render_study(study))).all("section", id="verdict")
    assert "No effects over time" in words(first)


def test_several_variants_are_one_line_each_and_what_holds_for_all_is_said_once() -> None:
    parsed = parse(whole(render_study(build_study(builders.three_variants()))))
    (first,) = parsed.all("section", id="verdict")
    lines = [words(e) for e in parsed.all("p", class_="sentence")]
    assert [line.split()[0] for line in lines] == ["treatment", "challenger"]
    assert words(first).count("duplicates warned") == 1
    assert not any("duplicates warned" in line for line in lines)


def test_the_page_is_small(folder: Path) -> None:
    assert (folder / "page.html").stat().st_size < 1_200_000
