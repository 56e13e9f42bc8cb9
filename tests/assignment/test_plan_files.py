"""Plans from options, and tables of units from CSV files."""

from __future__ import annotations

from pathlib import Path

import pytest

from abeval.assignment import Assignment, Holdout, Layer, Plan
from abeval.assignment.plan import read_assignment, read_plan
from abeval.errors import ExperimentError, LogError

EVEN = Assignment("exp", {"a": 1, "b": 1})


def written(folder: Path, text: str) -> Path:
    file = folder / "units.csv"
    file.write_text(text, encoding="utf-8")
    return file


def plan_of(layer: str | None = None, holdout: str | None = None) -> Plan:
    return read_plan(EVEN, 1.0, layer, holdout, None, None)


def test_the_options_make_a_plan(tmp_path: Path) -> None:
    table = written(tmp_path, "user,variant\n007,a\nu2,b\n")
    plan = read_plan(EVEN, 0.5, "my.layer:100-300000", "hold.2026:0.05", table, None)
    assert plan == Plan(
        EVEN,
        0.5,
        (Layer("my.layer", {"this": (100, 300_000)}), "this"),
        Holdout("hold.2026", 0.05),
        overrides={"007": "a", "u2": "b"},
    )
    assert read_plan(EVEN, 1.0, None, None, None, table) == Plan(
        EVEN, sticky={"007": "a", "u2": "b"}
    )


@pytest.mark.parametrize(
    "layer", ["0-10", ":0-10", "ranker:10", "ranker:-10", "ranker:0-", "ranker:a-10", "ranker:0-b"]
)
def test_a_layer_needs_a_salt_and_two_numbers(layer: str) -> None:
    with pytest.raises(ExperimentError, match="is not SALT:START-STOP"):
        plan_of(layer=layer)


def test_a_holdout_needs_a_number() -> None:
    with pytest.raises(ExperimentError, match="is not SALT:SHARE"):
        plan_of(holdout="hold:many")


def test_only_the_first_two_columns_are_read(tmp_path: Path) -> None:
    both = read_assignment(written(tmp_path, "user,variant\nu1,a\nu2,b\n"))
    three = read_assignment(written(tmp_path, "user,variant,country\nu1,a,se\nu2,b,fi\n"))
    assert both.to_dict() == three.to_dict() == {"u1": "a", "u2": "b"}


def test_ids_stay_as_they_are_written(tmp_path: Path) -> None:
    table = read_assignment(written(tmp_path, "\ufeffuser,variant\n007,a\nNA,b\nnull,NaN\n1.0,a\n"))
    assert table.to_dict() == {"007": "a", "NA": "b", "null": "NaN", "1.0": "a"}


def test_a_table_needs_two_columns_and_one_row_a_unit(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="fewer than two columns"):
        read_assignment(written(tmp_path, "user\nu1\n"))
    with pytest.raises(LogError, match="names a unit twice, such as 'u2'"):
        read_assignment(written(tmp_path, "user,variant\nu1,a\nu2,a\nu2,b\n"))
    with pytest.raises(LogError, match="cannot be read"):
        read_assignment(tmp_path / "no.csv")
