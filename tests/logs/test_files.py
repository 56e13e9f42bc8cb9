"""Which files a log is, and that what is in them is read as it is written."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import abeval
from abeval.errors import AbevalError
from abeval.results.analysis import Result
from tests.logs.small import PERIOD, analyze, aside, small_log, values

LOG = small_log()
CON = duckdb.connect()
ROWS = len(LOG)


def read(folder: Path, path: str | list[str] | dict[str, Any], **entries: Any) -> Result:
    """The analysis of a log of files, as a file in this folder would give it."""
    source = {"path": path, **entries.pop("source", {})}
    base: dict[str, Any] = {
        "name": "files",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "metrics": [{"name": "ctr"}, {"name": "clicks_per_user"}, {"name": "active_days_per_user"}],
        "trust": {"aa_runs": 0},
        "engine": {"threads": 1},
    }
    logs = {"impressions": source, **entries.pop("logs", {})}
    return abeval.define(folder, **{**base, "logs": logs, **entries}).analyze()


def put(file: Path, log: pd.DataFrame = LOG) -> None:
    """Write a log to a file whose name has any characters."""
    file.parent.mkdir(parents=True, exist_ok=True)
    plain = file.parent / "plain.tmp"
    if ".csv" in file.name.lower():
        log.to_csv(plain, index=False)
    elif ".json" in file.name.lower():
        log.to_json(plain, orient="records", lines=True, date_format="iso")
    else:
        CON.execute(f"copy log to '{plain}' (format parquet)").fetchall()
    if file.suffix.lower() == ".gz":
        plain.write_bytes(gzip.compress(plain.read_bytes()))
    plain.rename(file)


def halves() -> tuple[pd.DataFrame, pd.DataFrame]:
    return LOG[: ROWS // 2], LOG[ROWS // 2 :]


@pytest.mark.parametrize(
    ("names", "folder", "path"),
    [
        (("part1.parquet", "part[1].parquet"), "x", "logs"),
        (("aXb.parquet", "a*b.parquet"), "x", "logs/*.parquet"),
        (("ab.parquet", "a?b.parquet"), "x", ["logs/a?b.parquet", "logs/ab.parquet"]),
        (("a.parquet", "b.parquet"), "exp[1]", "logs/*.parquet"),
        (("a.csv", "[a].csv"), "exp*", "logs"),
        (("a.jsonl", "[!a].jsonl"), "x", "logs"),
    ],
)
def test_names_are_names_and_no_globs(
    tmp_path: Path, names: tuple[str, str], folder: str, path: str | list[str]
) -> None:
    for name, half in zip(names, halves(), strict=True):
        put(tmp_path / folder / "logs" / name, half)
    found = read(tmp_path / folder, path)
    assert aside(found) == {"used": ROWS}


def test_a_name_that_is_there_is_that_file_alone(tmp_path: Path) -> None:
    first, second = halves()
    put(tmp_path / "part1.parquet", first)
    put(tmp_path / "part[1].parquet", second)
    assert aside(read(tmp_path, "part[1].parquet")) == {"used": len(second)}


@pytest.mark.parametrize("path", ["logs", "logs/**/*.parquet"])
@pytest.mark.parametrize(
    "hidden", ["_temporary/0/a.parquet", "_spark_metadata/0.parquet", ".tmp/a.parquet"]
)
def test_what_engines_hide_is_no_data(tmp_path: Path, path: str, hidden: str) -> None:
    put(tmp_path / "logs" / "a.parquet")
    put(tmp_path / "logs" / hidden, LOG.assign(user_id=LOG.user_id + 1000))
    assert aside(read(tmp_path, path)) == {"used": ROWS}


@pytest.mark.parametrize("path", ["_logs", "_logs/*.parquet", "_l*/*.parquet"])
def test_a_hidden_folder_that_is_named_is_read(tmp_path: Path, path: str) -> None:
    put(tmp_path / "_logs" / "a.parquet")
    assert aside(read(tmp_path, path)) == {"used": ROWS}


def test_partitions_may_begin_with_an_underscore(tmp_path: Path) -> None:
    for value, half in zip("xy", halves(), strict=True):
        put(tmp_path / "logs" / f"_part={value}" / "a.parquet", half)
    assert aside(read(tmp_path, "logs")) == {"used": ROWS}


def test_links_are_followed_once(tmp_path: Path) -> None:
    put(tmp_path / "logs" / "a.parquet")
    (tmp_path / "logs" / "again").symlink_to(tmp_path / "logs", target_is_directory=True)
    assert aside(read(tmp_path, "logs")) == {"used": ROWS}


@pytest.mark.parametrize("name", ["b.parquet", "b.csv.gz", "b.jsonl.gz"])
def test_an_empty_file_that_cannot_be_empty_is_refused(tmp_path: Path, name: str) -> None:
    put(tmp_path / "logs" / name.replace("b", "a"))
    (tmp_path / "logs" / name).touch()
    with pytest.raises(AbevalError, match=f"{name} is empty"):
        read(tmp_path, "logs")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_an_empty_text_file_is_named(tmp_path: Path, kind: str) -> None:
    """Spark writes one for a task without rows."""
    put(tmp_path / "logs" / f"a.{kind}")
    (tmp_path / "logs" / f"b.{kind}").touch()
    found = read(tmp_path, "logs")
    assert aside(found) == {"used": ROWS}
    assert f"The impressions have 1 file without a byte: b.{kind}." in found.notes


def test_files_without_a_known_suffix_are_not_passed_over(tmp_path: Path) -> None:
    for name, half in zip(("a.parquet", "part-0"), halves(), strict=True):
        put(tmp_path / "logs" / name, half)
    with pytest.raises(AbevalError, match=r"mixed formats, such as (a.parquet, )?part-0"):
        read(tmp_path, "logs")
    found = read(tmp_path, "logs", source={"format": "parquet"})
    assert aside(found) == {"used": ROWS}


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "logs" / "a.parquet")
    (tmp_path / "logs" / "b.parquet").symlink_to(tmp_path / "gone.parquet")
    with pytest.raises(AbevalError, match=r"b.parquet is a link to nothing"):
        read(tmp_path, "logs")


@pytest.mark.whole
@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.CSV", "a.Csv.GZ", "a.PARQUET", "a.json"])
def test_the_format_follows_from_the_name(tmp_path: Path, name: str) -> None:
    put(tmp_path / "logs" / name)
    found = read(tmp_path, f"logs/{name}", period=PERIOD)
    assert values(found) == values(read_frame(period=PERIOD))


def read_frame(log: pd.DataFrame = LOG, **entries: Any) -> Result:
    with duckdb.connect() as con:
        base = con.from_df(log)
        return _defined(**entries).analyze(logs={"impressions": base})


def _defined(**entries: Any) -> Any:
    base: dict[str, Any] = {
        "name": "files",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "logs": {"impressions": entries.pop("source", {})},
        "metrics": [{"name": "ctr"}, {"name": "clicks_per_user"}, {"name": "active_days_per_user"}],
        "trust": {"aa_runs": 0},
    }
    return abeval.define(**{**base, **entries})


def long_log(late: dict[str, list[str]], rows: int = 21_000) -> pd.DataFrame:
    """More rows than the engine looks at to find the types, and a few that differ at the end."""
    unit = pd.Series(range(rows)) // 3
    log = pd.DataFrame(
        {
            "user_id": (unit + 100_000).astype(str),
            "variant": (unit % 2).map({0: "a", 1: "b"}),
            "ts": "2024-03-02 00:00:00",
            "click": unit % 3 // 2,
        }
    )
    end = log.tail(len(next(iter(late.values())))).copy()
    return pd.concat([log, end.assign(**late)], ignore_index=True)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_ids_are_text_that_keeps_its_zeros(tmp_path: Path, kind: str) -> None:
    """`00100000` comes after 20,480 rows, and is not the user 100000."""
    log = long_log({"user_id": ["00100000", "00100001"], "variant": ["b", "a"]})
    put(tmp_path / f"log.{kind}", log)
    found = read(tmp_path, f"log.{kind}", cleaning={"duplicates": "unchecked"})
    units = log.groupby("variant")["user_id"].nunique()
    assert (found["ctr"].units_control, found["ctr"].units) == (units["a"], units["b"])
    crossover = next(check for check in found.trust if check.name == "crossover")
    assert crossover.value == 0


def test_ids_that_are_whole_numbers_join_as_such(tmp_path: Path) -> None:
    """A CSV file beside Parquet, as before."""
    log = LOG.assign(impression_id=range(ROWS))
    put(tmp_path / "log.csv", log.drop(columns="click"))
    put(tmp_path / "clicks.parquet", log.loc[log.click == 1, ["impression_id"]])
    found = read(tmp_path, "log.csv", logs={"clicks": {"path": "clicks.parquet"}})
    assert values(found)["ctr"] == pytest.approx(values(read_frame())["ctr"], rel=1e-12)
    assert aside(found, "clicks")["used"] == (log.click == 1).sum()


@pytest.mark.parametrize("kind", ["csv", "partition"])
def test_names_of_variants_keep_their_zeros(tmp_path: Path, kind: str) -> None:
    named = LOG.assign(variant=LOG.variant.map({"a": "01", "b": "1"}))
    if kind == "csv":
        put(tmp_path / "logs" / "log.csv", named)
    else:
        for name, rows in named.groupby("variant"):
            put(tmp_path / "logs" / f"variant={name}" / "a.parquet", rows.drop(columns="variant"))
    found = read(tmp_path, "logs", control="01", variants={"01": {}, "1": {}})
    assert values(found) == values(read_frame())


def test_a_key_that_only_later_lines_have_is_read(tmp_path: Path) -> None:
    log = long_log({"click": [1] * 900})
    early, late = log[log.index < 20_500], log[log.index >= 20_500]
    parts = [early.drop(columns="click"), late[late.click == 0].drop(columns="click")]
    text = [part.to_json(orient="records", lines=True) for part in (*parts, late[late.click == 1])]
    (tmp_path / "log.jsonl").write_text("".join(text))
    found = read(tmp_path, "log.jsonl", cleaning={"duplicates": "unchecked"})
    expected = late
    share = {v: (expected[expected.variant == v].click.sum()) for v in "ab"}
    used = log.groupby("variant").size()
    assert found["ctr"].control == pytest.approx(share["a"] / used["a"], rel=1e-12)


TIMES: dict[str, Callable[[pd.Series], pd.Series]] = {
    "%d/%m/%Y %H:%M:%S": lambda ts: ts.dt.strftime("%d/%m/%Y %H:%M:%S"),
    "%m-%d-%Y %H:%M:%S": lambda ts: ts.dt.strftime("%m-%d-%Y %H:%M:%S"),
    "%Y%m%d%H%M%S": lambda ts: ts.dt.strftime("%Y%m%d%H%M%S"),
    "%b %d %Y %I:%M:%S %p": lambda ts: ts.dt.strftime("%b %d %Y %I:%M:%S %p"),
}


@pytest.mark.first_cases(5)
@pytest.mark.whole
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "frame"])
@pytest.mark.parametrize("ts_format", TIMES)
def test_a_format_that_is_said_is_read(tmp_path: Path, kind: str, ts_format: str) -> None:
    log = LOG.assign(ts=TIMES[ts_format](LOG["ts"]))
    source = {"ts_format": ts_format}
    if kind == "frame":
        found = read_frame(log, source=source, period=PERIOD)
    else:
        put(tmp_path / f"log.{kind}", log)
        found = read(tmp_path, f"log.{kind}", source=source, period=PERIOD)
    assert values(found) == values(read_frame(period=PERIOD))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_days_and_months_that_fit_both_orders_are_refused(tmp_path: Path, kind: str) -> None:
    """Three days of March 2024, as an American spreadsheet writes them."""
    put(tmp_path / f"log.{kind}", LOG.assign(ts=LOG["ts"].dt.strftime("%m/%d/%Y")))
    with pytest.raises(AbevalError, match=r"fit both orders.*03/01/2024") as refused:
        read(tmp_path, f"log.{kind}", period=PERIOD)
    assert refused.value.hint is not None
    assert '"%d/%m/%Y" or "%m/%d/%Y"' in refused.value.hint
    said = read(tmp_path, f"log.{kind}", period=PERIOD, source={"ts_format": "%m/%d/%Y"})
    assert values(said) == values(read_frame(period=PERIOD))


def test_the_order_that_the_values_show_is_that_of_all_files(tmp_path: Path) -> None:
    """The first file fits both orders; the second, with a 13th of March, only one."""
    later = LOG.assign(ts=LOG["ts"] + pd.Timedelta(days=12), user_id=LOG.user_id + 100)
    both = pd.concat([LOG, later], ignore_index=True)
    for name, rows in (("a.csv", LOG), ("b.csv", later)):
        put(tmp_path / "logs" / name, rows.assign(ts=rows["ts"].dt.strftime("%m/%d/%Y %H:%M:%S")))
    found, expected = values(read(tmp_path, "logs")), values(read_frame(both))
    assert {
        name: found[name] == pytest.approx(expected[name]) for name in expected
    } == dict.fromkeys(expected, True)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_zone_that_only_later_rows_have_counts(tmp_path: Path, kind: str) -> None:
    log = long_log({"ts": ["2024-03-02T00:00:00+05:30"] * 300})
    put(tmp_path / f"log.{kind}", log)
    found = read(
        tmp_path,
        f"log.{kind}",
        cleaning={"duplicates": "unchecked"},
        period={"start": "2024-03-02", "end": "2024-03-03"},
    )
    assert aside(found) == {"used": len(log) - 300, "outside_period": 300}


def test_a_few_times_that_are_none_are_counted(tmp_path: Path) -> None:
    text = LOG["ts"].dt.strftime("%Y-%m-%d %H:%M:%S")
    put(tmp_path / "log.csv", LOG.assign(ts=text.where(LOG.index >= 7, "unknown")))
    assert aside(read(tmp_path, "log.csv", period=PERIOD)) == {"used": ROWS - 7, "null_time": 7}


def lacks(result: Result) -> dict[str, str]:
    checks = (check for check in result.trust if check.name == "lacking_columns")
    return {re.findall("lack (.+?);", check.message)[0]: check.status for check in checks}


@pytest.mark.first_cases(2)
@pytest.mark.whole
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("unit", ["user_id", "row"])
def test_a_column_that_one_variants_files_lack_fails(tmp_path: Path, kind: str, unit: str) -> None:
    """It was a click-through rate of 0 in the treatment, and every check passed."""
    log = small_log(2400, 400)
    put(tmp_path / "logs" / f"a.{kind}", log[log.variant == "a"])
    put(tmp_path / "logs" / f"b.{kind}", log[log.variant == "b"].drop(columns="click"))
    found = read(tmp_path, "logs", unit=unit, cleaning={"duplicates": "unchecked"})
    assert lacks(found) == {"click": "fail"}
    assert found.verdicts[0].decision == "do_not_trust"
    (note,) = [note for note in found.notes if "files of the impressions lack" in note]
    assert note.startswith("1 of 2 files of the impressions lack the column 'click'")
    assert f"b.{kind}" in note


def test_a_column_that_all_variants_lack_for_a_day_warns(tmp_path: Path) -> None:
    log = small_log(6000, 1000)
    for day, rows in log.groupby(log["ts"].dt.day):
        put(tmp_path / "logs" / f"{day}.parquet", rows.drop(columns="click") if day == 1 else rows)
    found = read(tmp_path, "logs")
    assert lacks(found) == {"click": "warn"}
    assert next(c for c in found.trust if c.name == "lacking_columns").value == 0


def test_a_column_that_nobody_reads_may_be_lacking(tmp_path: Path) -> None:
    first, second = halves()
    put(tmp_path / "logs" / "a.parquet", first)
    put(tmp_path / "logs" / "b.parquet", second.drop(columns=["dwell", "score", "category"]))
    found = read(tmp_path, "logs")
    assert lacks(found) == {}
    assert not any("lack" in note for note in found.notes)


def test_a_column_whose_type_differs_between_files_is_named(tmp_path: Path) -> None:
    log, days = small_log(rows=900), tmp_path / "log"
    days.mkdir()
    parts = [log.iloc[i * 300 : (i + 1) * 300] for i in range(3)]
    parts[2] = parts[2].assign(score=(parts[2]["score"] * 100).astype("int32"))
    parts[1] = parts[1].assign(request_id=parts[1]["request_id"].astype("int32"))
    for number, part in enumerate(parts):
        part.to_parquet(days / f"day-{number}.parquet")
    result = analyze(folder=tmp_path, logs={"impressions": {"path": "log/*.parquet"}})
    drifts = [note for note in result.notes if "of 3 files, but" in note]
    assert drifts == [
        "The column 'score' of the impressions is DOUBLE in 2 of 3 files, but whole number in "
        "day-2.parquet: its values are read as one type that holds them all."
    ]


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_an_id_that_is_text_in_some_files_is_refused(tmp_path: Path, ending: str) -> None:
    """Ids of later days are `0007` for 7: half of the units were new ones, with a note."""
    padded = LOG.user_id.map("{:04d}".format)
    put(tmp_path / "log" / f"d1.{ending}", LOG[: ROWS // 2])
    put(tmp_path / "log" / f"d2.{ending}", LOG[ROWS // 2 :].assign(user_id=padded[ROWS // 2 :]))
    with pytest.raises(AbevalError, match=f"text in d2.{ending}, but a number in d1.") as error:
        read(tmp_path, "log")
    assert ("query = " in str(error.value)) == (ending == "parquet")
    if ending == "jsonl":
        return
    query = str(error.value).split("query = '")[1].split("'")[0]
    result = read(tmp_path, "log", source={"query": query})
    assert sum(v.units for v in result.experiment.variants) == LOG.user_id.nunique()


def test_whole_numbers_with_a_point_name_their_files_and_the_cast(tmp_path: Path) -> None:
    """Pandas writes the ids of a day with a null as 7.0."""
    put(tmp_path / "log" / "d1.parquet", LOG[: ROWS // 2])
    later = LOG[ROWS // 2 :].assign(user_id=LOG.user_id[ROWS // 2 :].astype(float))
    put(tmp_path / "log" / "d2.parquet", later)
    with pytest.raises(AbevalError, match="'user_id' is DOUBLE in d2") as error:
        read(tmp_path, "log")
    query = str(error.value).split("query = '")[1].split("'")[0]
    put(tmp_path / "whole.parquet")
    whole = values(read(tmp_path, "whole.parquet"))
    assert values(read(tmp_path, "log", source={"query": query})) == whole


@pytest.mark.parametrize("name", ["/dev/zero", "pipe", "zero"])
def test_a_device_or_a_pipe_is_no_log(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(AbevalError, match=f"{name} is a device or a pipe, but a log is read more"):
        read(tmp_path, name, source={"format": "csv"})


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "parquet"])
def test_paths_by_variant_say_the_variant(ending: str, tmp_path: Path) -> None:
    own = LOG[LOG.variant.isin(["a", "b"])].groupby("user_id").variant.transform("nunique") == 1
    log = LOG[own.reindex(LOG.index, fill_value=False)]
    without = log.drop(columns="variant")
    put(tmp_path / "odd [1]" / f"0.{ending}", without[log.variant == "a"])
    put(tmp_path / "b" / f"0.{ending}", without[log.variant == "b"][::2])
    put(tmp_path / "b" / f"1.{ending}", without[log.variant == "b"][1::2])
    put(tmp_path / "all" / f"0.{ending}", log)
    paths = {"a": f"odd [1]/0.{ending}", "b": ["b"]}
    assert values(read(tmp_path, paths)) == values(read(tmp_path, "all"))


@pytest.mark.parametrize(
    ("path", "source", "error"),
    [
        ({"a": "x.csv", "b": "x.csv"}, {}, "x.csv is of the variants 'a' and 'b'"),
        ({"a": "x.csv", "b": "y.csv"}, {}, "paths by variant are for files without a column"),
        (
            {"a": "x.csv"},
            {"columns": {"variant": "group"}},
            "names files by variant, but a column says the variant",
        ),
    ],
)
def test_paths_by_variant_are_refused_where_a_column_says_it(
    path: dict[str, Any], source: dict[str, Any], error: str, tmp_path: Path
) -> None:
    for name in ("x", "y"):
        put(tmp_path / f"{name}.csv")
    with pytest.raises(AbevalError, match=error):
        read(tmp_path, path, source=source)


def test_paths_by_variant_are_of_logs_with_variants(tmp_path: Path) -> None:
    put(tmp_path / "x.csv")
    with pytest.raises(AbevalError, match=r"logs\.clicks\.path: names files by variant"):
        read(tmp_path, "x.csv", logs={"clicks": {"path": {"a": "x.csv"}}})


def test_too_many_files_are_refused_before_any_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abeval.bounds.MAX_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("variant,spent\n")
    with pytest.raises(AbevalError, match=r"3 files, but at most 2 are read\n.*narrow the path"):
        abeval.analyze(tmp_path, variant="variant")
