"""`abeval init`: twelve shapes of table, guessed and then analysed as the file stands."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import abeval
from abeval.api.frames import draft
from abeval.cli.main import main
from abeval.drafts.run import draft_files
from abeval.errors import AbevalError, LogError
from abeval.experiment.load import parse_experiment
from tests.drafts.tables import Shape, shapes
from tests.real_logs import need

SHAPES = shapes()
CTR = [{"name": "ctr"}]
"""The goal of a draft that names no metric."""
FORMATS = ("csv", "parquet", "jsonl")


def written(shape: Shape, folder: Path, format: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"table.{format}"
    if format == "csv":
        shape.frame.to_csv(file, index=False)
    elif format == "parquet":
        shape.frame.to_parquet(file)
    else:
        shape.frame.to_json(file, orient="records", lines=True, date_format="iso")
    return file


@pytest.mark.whole
@pytest.mark.parametrize("name", SHAPES)
def test_unit_variant_and_outcomes_are_right_or_asked(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    place = list(SHAPES).index(name)
    file = written(shape, tmp_path, FORMATS[place % 2])
    own = draft_files([file], tmp_path)
    entries = tomllib.loads(own.text)
    assert entries["unit"] == shape.unit
    if shape.variant is None:
        assert any(question.startswith("variant") for question in own.questions)
        return
    log = entries["logs"].get("units") or entries["logs"]["impressions"]
    assert log["columns"].get("variant", "variant") == shape.variant
    if shape.control is None:
        assert any(question.startswith("control") for question in own.questions)
    else:
        assert entries["control"] == shape.control
    metrics = [m for m in entries.get("metrics", CTR) if m.get("role") != "diagnostic"]
    goals = {metric.get("value", metric["name"]) for metric in metrics}
    columns = {c for c in [*shape.frame.columns, "ctr"] if any(c in goal for goal in goals)}
    assert shape.outcomes <= columns
    assert len(goals) == len(shape.outcomes)


@pytest.mark.first_cases(4)
@pytest.mark.whole
@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape.variant])
def test_the_file_as_it_stands_gives_the_tables_own_means(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    text = draft_files([written(shape, tmp_path, "parquet")], tmp_path).text
    (tmp_path / "e.toml").write_text(text)
    result = abeval.load(tmp_path / "e.toml").replace(trust={"aa_runs": 0}).analyze()
    entries = tomllib.loads(text)
    is_draft = {verdict.decision == "draft" for verdict in result.verdicts}
    assert is_draft == {bool(entries.get("questions"))}
    frame = shape.frame
    own = frame[frame[str(shape.variant)].astype(str) == entries["control"]]
    units = len(own) if shape.unit == "row" else own[shape.unit].nunique()
    for metric in entries.get("metrics", CTR):
        if metric.get("role") == "diagnostic":
            continue
        if metric["name"] == "ctr":
            click = own.filter(like="click").iloc[:, 0]
            assert result["ctr"].control == pytest.approx(click.mean(), rel=1e-9)
            continue
        (column,) = (c for c in shape.outcomes if f'"{c}"' in metric["value"])
        rows = [row for row in result.scorecard if row.metric == metric["name"]]
        assert rows[0].control == pytest.approx(own[column].sum() / units, rel=1e-6)


def test_a_table_without_a_variant_is_not_analysed(tmp_path: Path) -> None:
    text = draft_files([written(SHAPES["ratings"], tmp_path, "csv")], tmp_path).text
    (tmp_path / "e.toml").write_text(text)
    with pytest.raises(AbevalError, match="variants"):
        abeval.load(tmp_path / "e.toml").analyze()


def test_weights_are_equal_and_asked_where_units_refute_it() -> None:
    """A weight that repeats the units would make the check of the split pass for ever."""
    uneven, even = draft(SHAPES["ads_or_psa"].frame), draft(SHAPES["landing_page"].frame)
    for own in (uneven, even):
        weights = tomllib.loads(own.text)["variants"].values()
        assert {variant["weight"] for variant in weights} == {1}
    assert any(question.startswith("weights") for question in uneven.questions)
    assert not any(question.startswith("weights") for question in even.questions)


def test_variants_that_may_be_nulls_are_asked_about() -> None:
    frame = SHAPES["landing_page"].frame
    name = SHAPES["landing_page"].variant
    holes = frame.assign(**{str(name): frame[name].where(frame.index % 20 > 0, "NULL")})
    own = draft(holes)
    assert "NULL" not in tomllib.loads(own.text)["variants"]
    assert any("is 'NULL' a variant" in question for question in own.questions)


def test_spellings_of_a_variant_are_asked_with_the_line_that_joins_them(tmp_path: Path) -> None:
    """Clients write `Control` and `control `: no column had one value a unit, or six variants."""
    frame = SHAPES["video_log"].frame
    other = frame.variant.str.title() + " "
    spelled = frame.assign(variant=frame.variant.where(frame.index % 3 > 0, other))
    file = written(SHAPES["video_log"]._replace(frame=spelled), tmp_path, "parquet")
    own = draft_files([file], tmp_path)
    entries = tomllib.loads(own.text)
    asked = [question for question in own.questions if question.startswith("variants: are")]
    assert len(asked) == 2
    for name in ("control", "model_b"):
        (question,) = (one for one in asked if f"'{name}'" in one)
        line = tomllib.loads(question.split("Then write ")[1].replace("] of", "]\nof"))
        del entries["variants"][f"{name.title()} "]
        entries["variants"][name] = line["variants"][name] | {"weight": 1}
    entries["control"] = "control"
    del entries["questions"]
    joined = parse_experiment(entries, tmp_path)
    result = abeval.LoadedExperiment(joined).replace(trust={"aa_runs": 0}).analyze()
    units = {v.name: v.units for v in result.experiment.variants}
    assert units == frame.groupby("variant")["uid"].nunique().to_dict()


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_ids_that_pandas_wrote_with_a_point_are_units(tmp_path: Path, format: str) -> None:
    """Ids with a null among them are 7.0: each row was taken for a unit, and nothing asked."""
    frame = SHAPES["video_log"].frame
    first = frame.index < len(frame) // 2
    for number, part in enumerate((frame[first], frame[~first].assign(uid=frame.uid + 0.0))):
        written(SHAPES["video_log"]._replace(frame=part), tmp_path / str(number), format)
    files = [tmp_path / str(number) / f"table.{format}" for number in range(2)]
    own = draft_files(files, tmp_path)
    (unit,) = (g for g in own.guesses if g.entry == "unit")
    assert unit.column is not None
    assert (unit.column.name, unit.certainty) == ("uid", "likely")
    (tmp_path / "e.toml").write_text(own.text)
    result = abeval.load(tmp_path / "e.toml").replace(trust={"aa_runs": 0}).analyze()
    assert sum(v.units for v in result.experiment.variants) == frame.uid.nunique()


def test_numbers_with_fractions_are_no_ids() -> None:
    frame = SHAPES["video_log"].frame
    assert tomllib.loads(draft(frame.assign(uid=frame.uid + 0.5)).text)["unit"] == "row"


def test_a_count_of_clicks_is_no_click() -> None:
    (clicks,) = (
        g
        for g in draft(SHAPES["days_of_devices"].frame).guesses
        if g.column and g.column.name == "clicks"
    )
    assert clicks.entry == "outcome"
    assert "count" in clicks.reason


def test_a_variant_that_units_change_is_not_taken() -> None:
    frame = pd.DataFrame({"user_id": list(range(500)) * 4, "group": ["a"] * 1000 + ["b"] * 1000})
    guesses = {g.entry: g for g in draft(frame).guesses}
    assert guesses["variant"].column is None
    assert guesses["variant"].certainty == "not sure"


def test_parts_of_a_table_items_and_clicks_find_their_places(tmp_path: Path) -> None:
    frame = SHAPES["video_log"].frame.drop(columns="is_click").assign(request_id=range(3_000))
    frame[:1500].to_parquet(tmp_path / "part1.parquet")
    frame[1500:].to_parquet(tmp_path / "part2.parquet")
    pd.DataFrame({"video_id": range(500), "tag": "x"}).to_parquet(tmp_path / "videos.parquet")
    frame[["request_id", "video_id"]][:200].to_csv(tmp_path / "clicks.csv", index=False)
    names = ("part1.parquet", "part2.parquet", "videos.parquet", "clicks.csv")
    logs = tomllib.loads(draft_files([tmp_path / n for n in names], tmp_path).text)["logs"]
    assert logs["impressions"]["path"] == ["part1.parquet", "part2.parquet"]
    assert logs["items"]["path"] == "videos.parquet"
    assert logs["clicks"]["path"] == "clicks.csv"


def test_a_file_that_is_not_used_is_named(tmp_path: Path) -> None:
    frame = SHAPES["video_log"].frame
    frame.to_parquet(tmp_path / "log.parquet")
    for name in ("refunds.csv", "visits.csv"):
        frame[["uid"]].assign(**{name[:4]: "x"}).to_csv(tmp_path / name, index=False)
    own = draft_files(
        [tmp_path / n for n in ("log.parquet", "refunds.csv", "visits.csv")], tmp_path
    )
    for name in ("refunds.csv", "visits.csv"):
        assert any(question.startswith(f"{name} is not used") for question in own.questions)
    (tmp_path / "e.toml").write_text(own.text)
    assert abeval.load(tmp_path / "e.toml").experiment.logs.impressions is not None


def test_a_table_of_one_row_a_unit_with_a_date_is_of_units(tmp_path: Path) -> None:
    """Units who signed up long before were impressions of years ago, on as many days."""
    frame = SHAPES["customers"].frame.assign(signup_date="2021-03-04")
    frame.loc[::3, "signup_date"] = "2025-04-09"
    frame.to_csv(tmp_path / "users.csv", index=False)
    own = draft_files([tmp_path / "users.csv"], tmp_path)
    logs = tomllib.loads(own.text)["logs"]
    assert list(logs) == ["units"]
    assert logs["units"]["columns"] == {"variant": "treatment"}
    (tmp_path / "e.toml").write_text(own.text)
    result = abeval.load(tmp_path / "e.toml").replace(trust={"aa_runs": 0}).analyze()
    control = frame[frame.treatment == 0]
    assert result["spend"].control == pytest.approx(control.spend.mean(), rel=1e-9)


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(LogError, match="no rows"):
        draft(
            pd.DataFrame(
                {"user_id": pd.Series([], dtype="int64"), "group": pd.Series([], dtype=str)}
            )
        )


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["abeval", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_the_command_writes_a_file_that_the_printed_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file = written(SHAPES["game"], tmp_path, "csv")
    output = tmp_path / "experiment.toml"
    assert run(monkeypatch, "init", file, "--output", output) == 0
    # Lines are broken where the path makes them long.
    out = " ".join(capsys.readouterr().out.split())
    assert f"abeval analyze {output}" in out
    assert "(1) control: is it 'gate_30'?" in out
    assert "take it out of `questions`" in out
    assert run(monkeypatch, "analyze", output) == 0
    assert capsys.readouterr().out.startswith("DRAFT: 1 question is open: ")
    assert run(monkeypatch, "analyze", output, "--gate") == 6
    assert run(monkeypatch, "init", file, "--output", output) == 2
    assert "is there already" in capsys.readouterr().err


def test_questions_stand_one_a_line_below_the_name(tmp_path: Path) -> None:
    own = draft_files([written(SHAPES["game"], tmp_path, "csv")], tmp_path)
    assert own.questions
    lines = own.text.splitlines()
    first = lines.index("questions = [")
    assert lines[0].startswith("name = ")
    assert all(line.startswith("# ") for line in lines[1:first])
    assert "DRAFT" in lines[1]
    listed = lines[first + 1 : lines.index("]")]
    assert len(listed) == len(own.questions)
    assert tuple(tomllib.loads(own.text)["questions"]) == own.questions


def test_a_draft_is_decided_once_its_questions_are_taken_out(tmp_path: Path) -> None:
    shape = SHAPES["game"]
    own = draft_files([written(shape, tmp_path, "csv")], tmp_path)
    file = tmp_path / "e.toml"
    file.write_text(own.text)
    asked = abeval.load(file).analyze()
    assert {verdict.decision for verdict in asked.verdicts} == {"draft"}
    rest = tomllib.loads(own.text)
    del rest["questions"]
    answered = parse_experiment(rest, tmp_path)
    result = abeval.LoadedExperiment(answered).analyze()
    assert "draft" not in {verdict.decision for verdict in result.verdicts}
    assert [row.p_value for row in result.scorecard] == [row.p_value for row in asked.scorecard]


def test_a_draft_without_a_question_decides(tmp_path: Path) -> None:
    names = [name for name, shape in SHAPES.items() if shape.variant and shape.control]
    drafts = (draft_files([written(SHAPES[n], tmp_path / n, "csv")], tmp_path) for n in names)
    sure = next(own for own in drafts if not own.questions)
    assert "questions" not in tomllib.loads(sure.text)
    (tmp_path / "e.toml").write_text(sure.text)
    result = abeval.load(tmp_path / "e.toml").analyze()
    assert "draft" not in {verdict.decision for verdict in result.verdicts}


def test_cookie_cats_as_it_is(tmp_path: Path) -> None:
    own = draft_files([need("cookie_cats/cookie_cats.csv")], tmp_path)
    (tmp_path / "e.toml").write_text(own.text)
    result = abeval.load(tmp_path / "e.toml").replace(trust={"aa_runs": 0}).analyze()
    assert result["retention_7"].control == pytest.approx(0.190201, abs=1e-6)
    assert result["retention_7"].p_value == pytest.approx(0.00155, abs=2e-5)


def test_a_format_that_is_said_is_that_of_the_draft(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("user_id,variant,clicks\n1,control,1\n2,treatment,0\n")
    drafted = draft_files([tmp_path / "t.txt"], tmp_path, read={"format": "csv"})
    assert 'format = "csv"' in str(drafted)


def test_a_view_that_fails_is_said(tmp_path: Path) -> None:
    rows = (
        "select range as user_id, 'a' as variant, cast('x' || range as int) as spent from range(9)"
    )
    with duckdb.connect(tmp_path / "a.duckdb") as connection:
        connection.execute(f"create view people as {rows}")
    with pytest.raises(LogError, match=r"a\.duckdb cannot be read: .* 'x0'.*\n.*name a table"):
        draft_files([tmp_path / "a.duckdb"], tmp_path)
