"""Metrics that cannot vary say so: they do not wait for more data."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from abeval.cli.main import app
from abeval.results.study import read_results

ITEMS, UNITS = 5, 800


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every unit is shown every item, and everybody clicks once."""
    folder = tmp_path_factory.mktemp("full")
    rows = (
        f"u{i},{'ab'[i % 2]},i{j},2026-09-{1 + i % 9:02d}T10:00:0{j},{int(j == i % ITEMS)}"
        for i in range(UNITS)
        for j in range(ITEMS)
    )
    text = "user,group,item_id,ts,click\n" + "\n".join(rows) + "\n"
    (folder / "log.csv").write_text(text, encoding="utf-8")
    (folder / "x.toml").write_text(
        'name = "full"\nunit = "user"\ncontrol = "a"\n[variants.a]\n[variants.b]\n'
        '[logs.impressions]\npath = "log.csv"\ncolumns = { unit_id = "user", variant = "group" }\n'
        '[[metrics]]\nname = "clicks_per_user"\nrole = "goal"\n[[metrics]]\nname = "coverage"\n',
        encoding="utf-8",
    )
    return folder


def test_what_cannot_vary_says_so(folder: Path) -> None:
    file, page = folder / "r.json", folder / "r.html"
    args = ["analyze", str(folder / "x.toml"), "--all", "--json", str(file), "--report", str(page)]
    run = CliRunner().invoke(app, args)
    assert run.exit_code == 0, run.output
    result = read_results([file]).analysis
    assert result is not None
    coverage, clicks = result["coverage"], result["clicks_per_user"]
    assert (coverage.status, coverage.reason) == ("too_little_data", "all_items_shown")
    assert (coverage.control, coverage.treatment) == (1.0, 1.0)
    assert clicks.reason == "zero_variance"
    said = " ".join(run.output.split())
    shown = re.sub("<script.*?</script>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for text in (said, shown):
        assert "every item is shown in both variants" in text
        assert "does not vary" in text
        assert "too little data" not in text
