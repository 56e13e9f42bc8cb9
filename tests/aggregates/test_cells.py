"""Cells of segments with few units, and those beyond the limit, are one `other` everywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import abeval
from abeval.aggregates.cells import LIMIT, OTHER, find_small_cells
from abeval.results.analysis import Result
from tests.cli.test_cli import call
from tests.logs.small import START

CITIES = {"Rome": 60, "Oslo": 40, "Bern": 24, "Nice": 9, "Cork": 3, "Pisa": 1}
"""Units of each of two variants."""


def log(cities: dict[str, int], rows: int = 6, seed: int = 0) -> pd.DataFrame:
    """Impressions of units that live in cities, as many in each variant."""
    random = np.random.default_rng(seed)
    lives = [city for city, units in cities.items() for _ in range(2 * units)]
    unit = np.repeat(np.arange(len(lives)), rows)
    return pd.DataFrame(
        {
            "user_id": unit,
            "variant": np.where(unit % 2 == 0, "a", "b"),
            "ts": (START + pd.to_timedelta(random.integers(0, 80_000, len(unit)), "s")).as_unit(
                "ms"
            ),
            "city": np.array(lives)[unit],
            "click": random.integers(0, 2, len(unit)),
        }
    )


def experiment(folder: Path, **entries: Any) -> abeval.LoadedExperiment:
    base: dict[str, Any] = {
        "name": "t",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "metrics": [{"name": "ctr"}, {"name": "clicks_per_user"}],
        "segments": {"city": "city"},
        "logs": {"impressions": {"path": "log.parquet"}},
        "cleaning": {"duplicates": "unchecked"},
        "engine": {"threads": 1},
    }
    return abeval.define(folder, **{**base, **entries})


def shown(result: Result, metric: str = "ctr") -> dict[str, tuple[int, int]]:
    rows = [row for row in result.segments if row.metric == metric]
    return {row.cell: (row.units_control, row.units) for row in rows}


def test_cells_of_few_units_are_one(tmp_path: Path) -> None:
    log(CITIES).to_parquet(tmp_path / "log.parquet")
    every = experiment(tmp_path).analyze()
    assert shown(every) == {city: (units, units) for city, units in sorted(CITIES.items())}
    few = experiment(tmp_path, privacy={"min_units": 10}).analyze()
    assert shown(few) == {
        "Bern": (24, 24),
        "Oslo": (40, 40),
        "Rome": (60, 60),
        OTHER: (13, 13),
    }
    assert few.notes[-1] == (
        "Segment city: 3 values with few units (fewer than 10 in a variant, or joined to those) "
        "are shown together as 'other'."
    )
    # What is not a segment is the same, and the sums of `other` are those of its cells.
    assert few.scorecard == every.scorecard
    assert few.daily == every.daily
    moved = log(CITIES).replace({"city": dict.fromkeys(("Nice", "Cork", "Pisa"), OTHER)})
    moved.to_parquet(tmp_path / "log.parquet")
    assert few.segments == experiment(tmp_path).analyze().segments
    assert few.segment_tests == experiment(tmp_path).analyze().segment_tests


def test_no_output_names_a_small_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log(CITIES).to_parquet(tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text(
        'name = "t"\nunit = "user_id"\ncontrol = "a"\nvariants = {a = {}, b = {}}\n'
        'metrics = [{name = "ctr"}]\nsegments.city = "city"\nprivacy.min_units = 10\n'
        'cleaning.duplicates = "unchecked"\nlogs.impressions.path = "log.parquet"\n'
    )
    outputs = "--json o.json --report o.html --csv o.csv"
    assert call(monkeypatch, "analyze", "e.toml", *outputs.split()) == 0
    whole = capsys.readouterr()
    texts = [whole.out + whole.err]
    texts += [(tmp_path / f"o.{kind}").read_text() for kind in ("json", "html", "csv")]
    for city in ("Nice", "Cork", "Pisa"):
        assert not any(city in text for text in texts)
    assert sum("Rome" in text for text in texts) >= 2


def test_a_limit_of_cells_is_stated(tmp_path: Path) -> None:
    cities = {f"city {number:04}": 1 + (number < 500) for number in range(900)}
    log(cities, rows=2).to_parquet(tmp_path / "log.parquet")
    result = experiment(tmp_path).analyze()
    cells = shown(result)
    assert len(cells) == LIMIT
    assert sum(units for _, units in cells.values()) == sum(cities.values())
    assert cells["city 0000"] == (2, 2)
    assert result.notes[-1] == (
        f"Segment city has 900 values: the {LIMIT - 1} with the most units are shown, the other "
        f"{900 - LIMIT + 1} together as 'other'."
    )
    assert len(result.report(tmp_path / "page.html").read_text()) < 8_000_000


@given(
    st.dictionaries(
        st.sampled_from([*"abcdefgh", OTHER]),
        st.dictionaries(st.sampled_from("xy"), st.integers(1, 30), min_size=1),
        min_size=1,
    ),
    st.integers(2, 25),
)
def test_what_is_shown_has_enough_units(cells: dict[str, dict[str, int]], least: int) -> None:
    joined = find_small_cells(cells, least)
    alone = set(cells) - joined
    assert all(min(cells[cell].values()) >= least for cell in alone)
    assert not joined or OTHER not in alone
    total = {v: sum(cells[cell].get(v, 0) for cell in joined) for v in "xy"}
    assert not alone or all(count == 0 or count >= least for count in total.values())


def test_texts_of_a_csv_are_no_formulas(tmp_path: Path) -> None:
    names = ["=1+1", "+b", "-c", "@d", "\te", "f-g"]
    frame = log({"Rome": 60})
    frame["variant"] = np.array(["a", *names])[frame["user_id"] % 7]
    frame.to_parquet(tmp_path / "log.parquet")
    variants = {name: {} for name in ("a", *names)}
    result = experiment(tmp_path, variants=variants, segments={}).analyze()
    lines = result.to_csv().splitlines()
    place = lines[0].split(",").index("variant")
    written = {line.split(",")[place] for line in lines[1:]}
    assert written == {"'=1+1", "'+b", "'-c", "'@d", "'\te", "f-g"}
    differences = lines[0].split(",").index("difference")
    numbers = [line.split(",")[differences] for line in lines[1:] if line.split(",")[differences]]
    assert any(number.startswith("-") for number in numbers)
    assert [float(number) for number in numbers] == [
        row.difference for row in result.scorecard if row.difference is not None
    ]
    assert json.loads(result.to_json())["scorecard"][0]["variant"] == "=1+1"
