"""Words for people: titles, labels and names in any script, from the file to each view."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.errors import ExperimentError
from abeval.results.analysis import Result, result_from_dict
from abeval.results.study import build_study
from tests import builders

NAMES = (
    *("订单金额", "Заказы", "नमस्ते", "été", "two words", "select"),
    *('a"b; drop', "it's", "x.y", "{m}", "--", "/* x", "1 + 1", "back\\slash", "<b>", "[red]"),
)
VARIANTS = ("对照", 'it\'s "b"; drop')
WORDS = {
    "title": "新排序",
    "hypothesis": "More orders\nper user.",
    "owner": "Search",
    "link": "https://example.org/42",
}


def table_of(*names: str, units: int = 400) -> pd.DataFrame:
    """Units in two variants, with a count for each name."""
    random = np.random.default_rng(0)
    values = {name: random.poisson(3, units).astype(float) for name in names}
    groups = [VARIANTS[i % 2] for i in range(units)]
    return pd.DataFrame({"user": range(units), "group": groups, **values})


def analyzed(metrics: list[dict[str, Any]], *names: str, **entries: Any) -> Result:
    loaded = abeval.define(
        name="ranker",
        unit="user",
        control=VARIANTS[0],
        variants={name: {} for name in VARIANTS},
        logs={"units": {"columns": {"variant": "group"}}},
        metrics=metrics,
        **entries,
    )
    return loaded.analyze(logs={"units": table_of(*(names or [m["name"] for m in metrics]))})


def test_names_of_metrics_and_variants_are_any_text(tmp_path: Path) -> None:
    parts = [
        {"name": "比 率", "numerator": '"订单金额"', "denominator": '"Заказы"'},
        {"name": "中位", "value": '"订单金额"', "quantile": 0.5},
        {"name": "a b; --", "function": '"比 率" * 2'},
    ]
    result = analyzed([*({"name": name} for name in NAMES), *parts], *NAMES)
    table = table_of(*NAMES)
    for name in NAMES:
        means = table.groupby("group")[name].mean()
        row = result[name, VARIANTS[1]]
        assert [row.control, row.treatment] == pytest.approx(list(means[list(VARIANTS)]))
    assert result["a b; --"].control == pytest.approx(2 * result["比 率"].control)
    assert result_from_dict(json.loads(result.to_json())) == result
    assert result.report(tmp_path / "page.html").stat().st_size > 0
    for name in ("订单金额", "/* x"):
        assert name in str(result)
        assert name in result.to_csv()


def test_a_name_is_composed_and_its_column_is_as_the_table_spells_it() -> None:
    result = analyzed([{"name": "e\u0301te\u0301"}])
    assert [metric.name for metric in result.metrics] == ["été"]


@pytest.mark.parametrize("name", ["", " ctr", "a\nb", "a\x1b[31m", "a\u2028b", "x" * 201])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ExperimentError, match=r"metrics\[0\].name: should"):
        analyzed([{"name": name, "value": "1"}])


def test_two_metrics_are_not_called_the_same() -> None:
    with pytest.raises(ExperimentError, match=r"metrics\[1\].label: 'a' is listed twice"):
        analyzed([{"name": "a"}, {"name": "b", "label": "a"}])


def test_columns_in_any_script_are_metrics_of_a_table() -> None:
    result = abeval.analyze(
        table_of("订单", "Заказ Σ"),
        variant="group",
        unit="user",
        metrics=["订单", '"Заказ Σ"', '每单 = "Заказ Σ" / "订单"'],
    )
    assert [metric.name for metric in result.metrics] == ["订单", "Заказ Σ", "每单"]


def test_words_of_the_experiment_stand_in_json_terminal_and_markdown() -> None:
    labelled = {"name": "orders", "label": "Orders | user", "description": "paid ones only"}
    result = analyzed([labelled, {"name": "spent"}], **WORDS)
    info = json.loads(result.to_json())["experiment"]
    assert {key: info[key] for key in WORDS} == WORDS
    assert result.experiment.display_name == "新排序"
    assert (result.metrics[0].description, result.metrics[0].display_name) == (
        "paid ones only",
        "Orders | user",
    )
    assert [result.label(name) for name in ("orders", "spent", "?")] == [
        "Orders | user",
        "spent",
        "?",
    ]
    lines = str(result).splitlines()
    assert "'Orders | user' could be anywhere" in lines[0]
    assert "新排序: user units: 对照 200" in str(result)
    assert "Hypothesis: More orders per user." in lines
    assert any(line.startswith("  Orders | user ") for line in lines)
    markdown = build_study(result).to_markdown()
    assert markdown.startswith(
        "## 新排序\n\n**Hypothesis:** More orders per user.\n\n**UNDECIDED, STOP**"
    )
    assert "| Orders \\| user (goal) |" in markdown
    assert result["orders"].metric == "orders"


def test_without_words_the_names_stand() -> None:
    result = analyzed([{"name": "orders"}])
    assert (result.experiment.display_name, result.label("orders"), result.progress) == (
        "ranker",
        "orders",
        "",
    )
    assert "Hypothesis" not in str(result)


@pytest.mark.parametrize("link", ["javascript:alert(1)", "example.org", "https://a b"])
def test_a_link_that_is_none_is_refused(link: str) -> None:
    with pytest.raises(ExperimentError, match="link: should be an address that begins with http"):
        analyzed([{"name": "orders"}], link=link)


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [
        ("2026-09-01", "2026-09-15", "2026-09-01 to 2026-09-14"),
        ("2026-09-01", "2026-09-02 00:00:00", "2026-09-01"),
        (
            "2026-09-01 12:00:00",
            "2026-09-15",
            "2026-09-01 12:00:00 to 2026-09-15 00:00:00 (Asia/Tokyo)",
        ),
        (None, None, ""),
    ],
)
def test_dates_have_the_last_day(start: str | None, end: str | None, shown: str) -> None:
    info = replace(builders.ship().experiment, start=start, end=end, timezone="Asia/Tokyo")
    assert info.dates == shown
