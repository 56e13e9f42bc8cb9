"""The first screen in a terminal of 80 columns, on the sample; `--all` has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli import options
from abeval.cli.main import app
from abeval.report.terminal import as_text, print_result
from abeval.results.analysis import Result
from tests import sample

WIDTH = 80


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def lines_of(text: str) -> list[str]:
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH
    return lines


def shown(result: Result, capsys: pytest.CaptureFixture[str], *, whole: bool) -> list[str]:
    print_result(result, options.open_console(), whole)
    return lines_of(capsys.readouterr().out)


@pytest.mark.whole
def test_an_analysis_fits_25_lines(capsys: pytest.CaptureFixture[str]) -> None:
    done = CliRunner().invoke(app, ["analyze", str(sample.FILE)])
    assert done.exit_code == 0, done.output
    lines, whole = lines_of(done.stdout), shown(sample.analysis(), capsys, whole=True)
    assert len(lines) <= 25
    text = " ".join(" ".join(lines).split())
    assert lines[0].startswith("SHIP: ctr")
    assert "day 14 of 14 (2026-09-14 to 2026-09-27), final look (2 of 2)" in text
    assert "Not checked: served (--all says what each needs)" in lines
    assert "Next: Roll out treatment." in lines
    assert "Goals ctr +13.1% [+8.2%, +18.2%] <0.001 better" in text
    assert "Guardrails sessions_per_user +1.1% [-4.6%, +7.1%] 0.802 non-inferior" in text
    assert "ctr, +13.1% [+8.2%, +18.2%]: group sequential delta" in text
    assert (
        "With --all: 18 diagnostics (11 unclear, 7 better), This look, Segments and notes" in text
    )
    assert not [line for line in lines if "gini" in line]
    assert len([line for line in whole if "gini" in line]) > 1
    assert [line for line in whole if "201,000 read" in line]


def test_skipped_checks_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "experiment.toml"
    text = sample.FILE.read_text().replace('path = "', f'path = "{sample.FILE.parent}/')
    file.write_text(text.replace('[assignment]\nsalt = "sample"', "[trust]\naa_runs = 0"))
    result = abeval.load(file).replace(metrics=[{"name": "ctr", "role": "goal"}]).analyze()
    lines, whole = shown(result, capsys, whole=False), shown(result, capsys, whole=True)
    assert "Not checked: served and assignment (--all says what each needs)" in lines
    assert [line for line in whole if "map timeout, fallback, stale" in line]


@pytest.mark.whole
def test_an_agreement_fits_60_lines() -> None:
    agreement = sample.agreement()
    lines, whole = (lines_of(as_text(agreement, WIDTH, all_of)) for all_of in (False, True))
    assert len(lines) <= 60
    text = " ".join(" ".join(lines).split())
    said = (
        "CONTRADICT EACH OTHER",
        "Why: Position accounts for 100% of the gap: the candidate's AUC",
        "Next: Decide by",
        "Checked,",
    )
    places = [text.index(one) for one in said]
    assert places == sorted(places)
    assert "6 causes cannot be checked without: propensity" in text
    assert text.count("cannot be checked") == 1
    assert " ".join(whole).count("cannot be checked") == 6
    assert [line for line in whole if "Q (scores" in line]
