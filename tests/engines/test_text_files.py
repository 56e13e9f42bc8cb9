"""Text files: cells that are numbers but for blanks, ids up to 2**64, money, `sep=`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import abeval
from abeval.cli.main import app
from abeval.errors import AbevalError, LogError

ROWS = [(i, "ab"[i % 2], f"{i % 7 / 4}", i % 5) for i in range(400)]
WANTED = sum(float(x) for _, variant, x, _ in ROWS if variant == "a") / 200
NAMED = {"unit": "user_id", "variant": "variant", "control": "a"}


def write(file: Path, rows: list[tuple[object, ...]] = ROWS, first: str = "") -> Path:
    lines = ["user_id,variant,x,n", *(",".join(map(str, row)) for row in rows)]
    file.write_text("\n".join([*filter(None, [first]), *lines, ""]))
    return file


@pytest.mark.parametrize("row", [0, 300])
@pytest.mark.parametrize("blanks", ["{} ", " {}", "\t{} "])
def test_a_number_beside_blanks_is_one(blanks: str, row: int, tmp_path: Path) -> None:
    rows = [
        (i, v, blanks.format(x) if i == row else x, blanks.format(n) if i == row else n)
        for i, v, x, n in ROWS
    ]
    result = abeval.analyze(write(tmp_path / "a.csv", rows), metrics=["x", "n"], **NAMED)
    assert result["x"].control == pytest.approx(WANTED, rel=1e-12)
    assert result["n"].control == 2


def test_text_beside_a_number_stays_text(tmp_path: Path) -> None:
    rows = [(i, v, "n/a" if i == 7 else f"{x} ", n) for i, v, x, n in ROWS]
    with pytest.raises(LogError, match="1 of its 400 values are none, such as 'n/a'"):
        abeval.analyze(write(tmp_path / "a.csv", rows), metrics=["x"], **NAMED)


@pytest.mark.parametrize("large", [2**63, 2**64 - 1])
@pytest.mark.parametrize("row", [0, 300])
def test_ids_on_both_sides_of_2_to_the_63_are_units(large: int, row: int, tmp_path: Path) -> None:
    rows = [(large if i == row else 2**63 - 1 - i, v, x, n) for i, v, x, n in ROWS]
    result = abeval.analyze(write(tmp_path / "a.csv", rows), metrics=["x"], **NAMED)
    assert result["x"].control == pytest.approx(WANTED, rel=1e-12)
    assert result["x"].units_control == result["x"].units == 200


@pytest.mark.parametrize(
    ("shown", "cast"),
    [
        (
            lambda x: f"${float(x) * 1000:,.2f}",
            "cast(replace(replace(x, '$', ''), ',', '') as double)",
        ),
        (lambda x: f"{x}%", "cast(replace(replace(x, '%', ''), ',', '') as double) / 100"),
    ],
)
def test_money_and_per_cent_are_told_with_what_makes_numbers(
    shown: object, cast: str, tmp_path: Path
) -> None:
    """`analyze` says the cast; `init` writes the query that has it."""
    rows = [(i, v, f'"{shown(x)}"', n) for i, v, x, n in ROWS]  # type: ignore[operator]
    file = write(tmp_path / "a.csv", rows)
    with pytest.raises(LogError, match="is text such as") as caught:
        abeval.analyze(file, metrics=["x"], **NAMED)
    metric = f"x = {cast}"
    assert f'"{metric}"' in str(caught.value)
    result = abeval.analyze(file, metrics=[metric], **NAMED)
    factor = 1000 if "$" in cast else 0.01
    assert result["x"].control == pytest.approx(WANTED * factor, rel=1e-12)
    drafted = tmp_path / "d.toml"
    CliRunner().invoke(app, ["init", str(file), "--output", str(drafted)])
    assert "numbers:" not in drafted.read_text()
    result = abeval.load(drafted).analyze()
    assert result["x"].control == pytest.approx(WANTED * factor, rel=1e-9)


def test_a_first_line_that_says_the_separator_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="line 1: it says which character is between columns"):
        abeval.analyze(write(tmp_path / "a.csv", first="sep=,"), metrics=["x"], **NAMED)


def test_money_in_a_log_is_told_with_a_cast_that_reads_it(tmp_path: Path) -> None:
    rows = [(i, v, f'"${float(x) * 1000:,.2f}"', n) for i, v, x, n in ROWS]
    write(tmp_path / "a.csv", rows)
    entries = {"unit": "user_id", "control": "a", "variants": {"a": {}, "b": {}}}
    log = {"logs": {"units": {"path": "a.csv"}}}
    written = abeval.define(
        tmp_path, name="t", **entries, **log, metrics=[{"name": "x", "value": "x"}]
    )
    with pytest.raises(AbevalError, match="metric 'x': 'x' cannot be computed") as caught:
        written.analyze()
    cast = str(caught.value.hint).partition(" reads ")[0]
    result = abeval.define(
        tmp_path, name="t", **entries, **log, metrics=[{"name": "x", "value": cast}]
    ).analyze()
    assert result["x"].control == pytest.approx(WANTED * 1000, rel=1e-12)


def test_a_column_of_ids_may_have_braces_in_its_name(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv")
    file.write_text(file.read_text().replace("user_id", "user{0}id"))
    result = abeval.analyze(file, metrics=["x"], **(NAMED | {"unit": "user{0}id"}))
    assert result["x"].units_control == 200
