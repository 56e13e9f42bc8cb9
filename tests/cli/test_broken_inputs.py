"""Inputs with a mistake in them: one clear message and exit code 2, or a refusal in the row."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from abeval.cli.main import main

FILE = """\
name = "t"
unit = "user_id"
control = "a"
[period]
start = 2024-01-01
end = 2024-01-04
[variants.a]
[variants.b]
[logs.impressions]
path = "log.parquet"
[[metrics]]
name = "ctr"
"""
LOG = """
select
  i as impression_id, i // 5 as request_id, 'u' || (i // 20) as user_id, i % 37 as item_id,
  timestamp '2024-01-01' + interval (i * 100) second as ts,
  case when (i // 20) % 2 = 0 then 'a' else 'b' end as variant,
  cast(i % 5 + 1 as int) as position, cast(hash(i) % 7 = 0 as int) as click,
  (hash(i) % 50) * 1.0 as dwell, cast(hash(i * 7) % 1000 as double) / 1000 as score,
  (i % 9) * 1.5 as price
from range(2400) t(i)
"""
WITHOUT_CLICKS = f"select * exclude (click, dwell) from ({LOG})"
CLICKED = f"from ({LOG}) where click = 1"
EPOCH = "1704067200 + impression_id * 100"

Write = Callable[[Path], object]


CON = duckdb.connect()


def write(folder: Path, sql: str, name: str = "log.parquet") -> None:
    kind = {".csv": "csv", ".json": "json"}.get(Path(name).suffix, "parquet")
    CON.execute(f"copy ({sql}) to '{folder / name}' (format {kind})").fetchall()


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    """`abeval analyze` in this process."""
    command = ["abeval", "analyze", f"{folder / 'e.toml'}", "--json", f"{folder / 'o.json'}"]
    monkeypatch.setattr(sys, "argv", [*command, *options])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def replaced(**columns: str) -> str:
    """The log with other columns."""
    listed = ", ".join(f"{sql} as {name}" for name, sql in columns.items())
    return f"select * replace ({listed}) from ({LOG})"


@dataclass(frozen=True)
class Broken:
    """One mistake: entries of the file that change, what is added to it, the log, other files."""

    says: tuple[str, ...]
    entries: dict[str, str] = field(default_factory=dict)
    add: str = ""
    log: str | None = LOG
    files: Write | None = None
    options: tuple[str, ...] = ()

    def lay_out(self, folder: Path) -> None:
        text = FILE
        for old, new in self.entries.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (folder / "e.toml").write_text(text + self.add)
        if self.log is not None:
            write(folder, self.log)
        if self.files is not None:
            self.files(folder)


def put(name: str, content: bytes | str) -> Write:
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data)


def copied(sql: str, name: str) -> Write:
    return lambda folder: write(folder, sql, name)


def truncate(folder: Path) -> None:
    file = folder / "log.parquet"
    file.write_bytes(file.read_bytes()[:5000])


def edit_csv(change: Callable[[list[str]], None]) -> Write:
    def edit(folder: Path) -> None:
        write(folder, LOG, "log.csv")
        lines = (folder / "log.csv").read_text().splitlines()
        change(lines)
        (folder / "log.csv").write_text("\n".join(lines) + "\n")

    return edit


def add_fields(lines: list[str]) -> None:
    lines[1500] += ",9,9"


def spoil_click(lines: list[str]) -> None:
    cells = lines[1500].split(",")
    lines[1500] = ",".join([*cells[:7], "yes", *cells[8:]])


def not_utf8(folder: Path) -> None:
    write(folder, LOG, "log.csv")
    (folder / "log.csv").write_bytes((folder / "log.csv").read_bytes().replace(b"u1,", b"\xfc1,"))


def mixed_folder(folder: Path) -> None:
    (folder / "logs").mkdir()
    write(folder, LOG, "logs/a.parquet")
    write(folder, LOG, "logs/b.csv")


def as_folder(folder: Path) -> None:
    (folder / "e.toml").unlink()
    (folder / "e.toml").mkdir()


def database(folder: Path) -> None:
    with duckdb.connect(folder / "logs.duckdb") as con:
        con.execute(f"create table impression as {LOG}").fetchall()


CSV = {"log.parquet": "log.csv"}
TABLE = {'path = "log.parquet"': 'path = "logs.duckdb"\ntable = "impressions"'}
CLICKS = '[logs.clicks]\npath = "clicks.parquet"\n'
RANKING = '[[metrics]]\nname = "mrr"\n'


def mapped(text: str) -> dict[str, str]:
    """More entries for the impressions."""
    return {'path = "log.parquet"': f'path = "log.parquet"\n{text}'}


def own(value: str) -> str:
    return f"[[metrics]]\nname = 'own'\nvalue = '''{value}'''\n"


BROKEN = {
    # The ten of issue 2; all-zero clicks and null scores are refusals in the row, below.
    "missing_column": Broken(
        ("logs.impressions: no column 'clicked' for click; did you mean `click`?", "the log has:"),
        mapped('columns = { click = "clicked" }'),
    ),
    "missing_file": Broken(("no file of impressions matches", "relative paths start"), log=None),
    "truncated_parquet": Broken(
        ("impressions cannot be read from log.parquet", "check that the file is complete"),
        files=truncate,
    ),
    "wrong_type": Broken(
        ("column 'click' is VARCHAR, but click must be a number", "hint:"),
        log=replaced(click="'yes'"),
    ),
    "one_variant": Broken(
        ("variants: an experiment compares at least two variants",), {"[variants.b]\n": ""}
    ),
    "unknown_control": Broken(("control: no variant is called 'c'; known: a, b",), {'"a"': '"c"'}),
    "period_backwards": Broken(
        ("period: is empty: start 2024-01-01 is not before end 2023-12-01",),
        {"2024-01-04": "2023-12-01"},
    ),
    "period_of_no_day": Broken(("period: is empty",), {"2024-01-04": "2024-01-01"}),
    "period_without_rows": Broken(
        (
            "all 2,400 impressions are set aside (outside_period 2,400)",
            "run from 2024-01-01 00:00:00 to 2024-01-03 18:38:20 (UTC); check [period]",
        ),
        {"2024-01-01": "2025-01-01", "2024-01-04": "2025-01-04"},
    ),
    "float_user_ids": Broken(
        ("column 'user_id' is DOUBLE, but unit_id must be a whole number or text: 123 and 123.0",),
        log=replaced(user_id="cast(impression_id // 20 as double)"),
    ),
    # The experiment file.
    "bad_toml": Broken(("is not valid TOML", "line 13", "hint:"), add="[[["),
    "toml_not_utf8": Broken(
        ("is not UTF-8 text: byte 7 is wrong", "save it as UTF-8"),
        files=put("e.toml", b"name='\xff'"),
    ),
    "toml_in_utf16": Broken(("is not UTF-8 text",), files=put("e.toml", FILE.encode("utf-16"))),
    "toml_is_a_folder": Broken(("e.toml is a folder", "name the TOML file"), files=as_folder),
    "unknown_key": Broken(
        ("has 1 problem", "timezon: unknown key `timezon`; did you mean `timezone`?"),
        {'control = "a"': 'control = "a"\ntimezon = "UTC"'},
    ),
    "misspelt_metric": Broken(
        ("metrics[0].name: no built-in metric is called 'crt'; did you mean `ctr`?",),
        {'"ctr"': '"crt"'},
    ),
    "invented_metric": Broken(
        ("no built-in metric is called 'revenue'; `abeval tools metrics` lists",),
        {'"ctr"': '"revenue"'},
    ),
    "guardrail_without_margin": Broken(
        ("metrics[0].margin: a guardrail needs a margin, the largest harm",),
        add='role = "guardrail"\n',
    ),
    "metric_twice": Broken(
        ("metrics[1].name: 'ctr' is listed twice",), add='[[metrics]]\nname = "ctr"\n'
    ),
    "unknown_time_zone": Broken(
        ("timezone: unknown time zone 'europe/berlyn'; did you mean `Europe/Berlin`?",),
        {'control = "a"': 'control = "a"\ntimezone = "europe/berlyn"'},
    ),
    "time_zone_outside": Broken(
        ("timezone: unknown time zone '../../etc/passwd'",),
        {'control = "a"': 'control = "a"\ntimezone = "../../etc/passwd"'},
    ),
    "weights_all_zero": Broken(
        ("every variant but control has weight 0", "variants.a.weight: control has weight 0"),
        {"[variants.a]\n[variants.b]": "[variants.a]\nweight = 0\n[variants.b]\nweight = 0"},
    ),
    "negative_weight": Broken(
        ("variants.a.weight: should be greater than or equal to 0 (got -1)",),
        {"[variants.a]": "[variants.a]\nweight = -1"},
    ),
    "date_as_number": Broken(
        ("period.start: should be a date such as 2026-09-14 (got 20240101)",),
        {"start = 2024-01-01": "start = 20240101"},
    ),
    "date_in_words": Broken(
        ("period.start: should be a date such as 2026-09-14 (got 'last week')",),
        {"start = 2024-01-01": 'start = "last week"'},
    ),
    "date_with_offset": Broken(
        ("period.start: has an offset", "write the local time"),
        {"start = 2024-01-01": "start = 2024-01-01T00:00:00+02:00"},
    ),
    "alpha_in_percent": Broken(
        ("alpha: should be less than 1 (got 5)",), {'control = "a"': 'control = "a"\nalpha = 5'}
    ),
    # Expressions.
    "expression_not_sql": Broken(
        ("metrics[1].value: 'price +' is not one SQL",), add=own("price +")
    ),
    "expression_sums": Broken(
        ("metrics[1].value: 'sum(price)' holds an aggregate",), add=own("sum(price)")
    ),
    "expression_queries": Broken(
        ("holds a query",), add=own("(select max(price) from raw_impressions)")
    ),
    "expression_unknown_column": Broken(
        ("reads 'prize', which the impressions do not have; did you mean `price`?", "the log has"),
        add=own("prize * 2"),
    ),
    "expression_overflows": Broken(
        ("metric 'own': '9e18 * price' cannot be computed", "`resolution`"), add=own("9e18 * price")
    ),
    "expression_sum_overflows": Broken(
        ("metric 'own': 'price * 1e12' cannot be computed", "`resolution`"),
        add=own("price * 1e12"),
    ),
    "expression_divides_by_zero": Broken(
        ("metric 'own': 'price // (position - 1)' cannot be computed", "nullif(x, 0)"),
        add=own("price // (position - 1)"),
    ),
    "expression_of_text": Broken(
        ("metric 'own': 'user_id' cannot be computed", "try_cast(x as double)"), add=own("user_id")
    ),
    "expression_of_dates": Broken(
        ("metric 'own': 'ts' cannot be computed", "must be a number"), add=own("ts")
    ),
    "expression_constant_overflows": Broken(
        ("metric 'own': '9223372036854775807 + 1' cannot be computed",),
        add=own("9223372036854775807 + 1"),
    ),
    "expression_of_a_wrong_type": Broken(
        ("metric 'own': 'lower(score)' cannot be computed", "check the types of its columns"),
        add=own("price").replace("own", "other") + own("lower(score)"),
    ),
    "segment_of_a_wrong_type": Broken(
        ("segments.d: 'score + user_id' cannot be computed", "check the types of its columns"),
        add="[segments]\nc = 'position'\nd = 'score + user_id'\n",
    ),
    "segment_sums": Broken(
        ("segments.device: 'sum(x)' holds an aggregate",), add='[segments]\ndevice = "sum(x)"\n'
    ),
    "segment_unknown_column": Broken(
        ("reads 'device', which the impressions do not have",), add='[segments]\nd = "device"\n'
    ),
    "segment_fails": Broken(
        ("segments.d: 'cast(user_id as int)' cannot be computed",),
        add='[segments]\nd = "cast(user_id as int)"\n',
    ),
    # Files of logs.
    "csv_ragged": Broken(
        ("log.csv, line 1501: 13 fields, but the header has 11",), CSV, files=edit_csv(add_fields)
    ),
    "csv_text_among_numbers": Broken(
        ("column 'click' is VARCHAR, but click must be a number", "one text value"),
        CSV,
        files=edit_csv(spoil_click),
    ),
    "csv_empty": Broken(("log.csv is empty",), CSV, files=put("log.csv", "")),
    "csv_binary": Broken(
        ("log.csv has bytes that are 0", "it is damaged: restore it"),
        CSV,
        files=put("log.csv", bytes(range(256)) * 20),
    ),
    "csv_not_utf8": Broken(("log.csv is not UTF-8", "in [logs.impressions]"), CSV, files=not_utf8),
    "json_cut_off": Broken(
        ("cannot be read from log.json",),
        {"log.parquet": "log.json"},
        files=put("log.json", '[{"user_id": 1'),
    ),
    "parquet_without_rows": Broken(("the impressions have no rows",), log=f"{LOG} where false"),
    "parquet_of_no_bytes": Broken(("log.parquet is empty",), files=put("log.parquet", "")),
    "folder_of_mixed_kinds": Broken(
        ("unknown or mixed formats, such as", 'format = "csv" in [logs.impressions]'),
        {"log.parquet": "logs"},
        files=mixed_folder,
    ),
    "folder_of_nothing": Broken(
        ("no file of impressions matches",),
        {"log.parquet": "logs"},
        files=lambda folder: (folder / "logs").mkdir(),
    ),
    "glob_without_match": Broken(
        ("no file of impressions matches", "logs/*.parquet"), {"log.parquet": "logs/*.parquet"}
    ),
    "unknown_kind": Broken(
        ("unknown or mixed formats, such as log.avro", ".xlsx, ", ".sqlite, "),
        {"log.parquet": "log.avro"},
        files=put("log.avro", "x"),
    ),
    "nul_in_path": Broken(("no file of impressions",), {"log.parquet": "lo\\u0000g.parquet"}),
    "table_without_database": Broken(
        (
            "names 'impressions', but there is no file or connection for it",
            "logs.impressions.path",
        ),
        {'path = "log.parquet"': 'table = "impressions"'},
    ),
    "database_missing": Broken(("no file of impressions matches", "logs.duckdb"), TABLE),
    "database_of_something_else": Broken(
        ("logs.duckdb cannot be opened",), TABLE, files=put("logs.duckdb", "x" * 5000)
    ),
    "table_missing": Broken(
        ("there is no table 'impressions'; did you mean `impression`?",), TABLE, files=database
    ),
    # Columns of logs.
    "unit_column_missing": Broken(
        ("no column 'userid' for unit_id; did you mean `user_id`?",), {'"user_id"': '"userid"'}
    ),
    "unit_of_lists": Broken(
        ("column 'user_id' is VARCHAR[], but unit_id must be a whole number or text",),
        log=replaced(user_id="[user_id]"),
    ),
    "unit_of_structs": Broken(
        ("column 'user_id' is STRUCT(", "must be a whole number or text"),
        log=replaced(user_id="{'id': user_id}"),
    ),
    "items_of_lists": Broken(("column 'item_id' is BIGINT[]",), log=replaced(item_id="[item_id]")),
    "units_all_null": Broken(
        ("all 2,400 impressions are set aside (null_unit 2,400)", "'user_id'"),
        log=replaced(user_id="cast(null as varchar)"),
    ),
    "time_as_number": Broken(
        ("column 'ts' is BIGINT, so set its unit since 1970: time_unit",),
        log=replaced(ts=EPOCH),
    ),
    "time_as_text_of_no_format": Broken(
        ("the times in 'ts' have no format that is known: 2,400 of 2,400, such as", "ts_format"),
        log=replaced(ts="'+' || impression_id || ' s'"),
    ),
    "time_with_days_that_may_be_months": Broken(
        ("the times in 'ts' fit both orders", '"%d/%m/%Y %H:%M" or "%m/%d/%Y %H:%M"'),
        log=replaced(ts="strftime(ts, '%-d/%-m/%Y %H:%M')"),
    ),
    "time_with_days_in_both_orders": Broken(
        ("the times in 'ts' are in both orders",),
        log=replaced(ts="case when impression_id % 2 = 0 then '13/1/2024' else '1/13/2024' end"),
    ),
    "format_that_reads_few_times": Broken(
        ("ts_format '%Y%m%d' reads 0 of 2,400 times in 'ts'; it does not read '01.01.2024'",),
        mapped('ts_format = "%Y%m%d"'),
        log=replaced(ts="strftime(ts, '%d.%m.%Y')"),
    ),
    "format_of_a_timestamp": Broken(
        ("column 'ts' is TIMESTAMP, so ts_format has no meaning", "remove it"),
        mapped('ts_format = "%Y"'),
    ),
    "time_unit_too_small": Broken(
        ("(outside_period 2,400)", "run from 1970-01-20", "time_unit"),
        mapped('time_unit = "ms"'),
        log=replaced(ts=EPOCH),
    ),
    "time_unit_too_large": Broken(
        ("all 2,400 impressions are set aside (null_time 2,400)",),
        mapped('time_unit = "s"'),
        log=replaced(ts=f"({EPOCH}) * 1000000000"),
    ),
    "time_unit_of_a_timestamp": Broken(
        ("column 'ts' is TIMESTAMP, so time_unit has no meaning",), mapped('time_unit = "s"')
    ),
    "no_time_for_the_period": Broken(
        ("[period] needs the time of each impression", "remove [period]"),
        log=f"select * exclude ts from ({LOG})",
    ),
    "no_variant": Broken(
        ("the variant of a unit is unknown", "[assignment] salt"),
        log=f"select * exclude variant from ({LOG})",
    ),
    "variants_of_other_names": Broken(
        ("(not_compared 2,400)", "the log's variants are 'A', 'B'; give [variants] these names"),
        log=replaced(variant="upper(variant)"),
    ),
    "several_reasons": Broken(
        ("all 2,400 impressions are set aside", "not_compared 1,200", "null_unit 1,200"),
        log=replaced(variant="upper(variant)", user_id="case when variant = 'a' then user_id end"),
    ),
    "positions_from_0": Broken(
        ("the smallest 'position' is 0", "first_position = 0"),
        add=RANKING,
        log=replaced(position="position - 1"),
    ),
    "positions_negative": Broken(
        ("the smallest 'position' is -2", "correct negative ones in the log"),
        add=RANKING,
        log=replaced(position="position - 3"),
    ),
    "score_column_missing": Broken(
        ("models.m.score: the impressions have no column 'scoer'; did you mean `score`?",),
        {"[variants.a]": "[models.m]\nscore = 'scoer'\n[variants.a]\nmodel = 'm'"},
    ),
    "score_of_text": Broken(
        ("models.m.score: column 'user_id' is VARCHAR, but a score is a number",),
        {"[variants.a]": "[models.m]\nscore = 'user_id'\n[variants.a]\nmodel = 'm'"},
    ),
    "score_too_large": Broken(
        ("metric 'q_ctr': 'score' cannot be computed",),
        add='[[metrics]]\nname = "q_ctr"\n',
        log=replaced(score="1e20"),
    ),
    "duplicate_key_missing": Broken(
        ("cleaning.duplicate_key: the impressions have no column 'impresion_id'; did you mean",),
        add='[cleaning]\nduplicate_key = ["impresion_id"]\n',
    ),
    # Other logs.
    "clicks_without_key": Broken(
        ("clicks cannot be joined to impressions", "map the columns"),
        add=CLICKS,
        log=WITHOUT_CLICKS,
        files=copied(f"select user_id, ts {CLICKED}", "clicks.parquet"),
    ),
    "clicks_joined_by_nothing": Broken(
        ("logs.clicks.join names 'request_id', which is not in both logs", "both have"),
        add=f'{CLICKS}join = ["request_id"]\n',
        log=WITHOUT_CLICKS,
        files=copied(f"select impression_id, ts {CLICKED}", "clicks.parquet"),
    ),
    "click_ids_of_another_type": Broken(
        ("logs.clicks: column 'impression_id' is VARCHAR, but in logs.impressions",),
        add=CLICKS,
        log=WITHOUT_CLICKS,
        files=copied(f"select 'x' || impression_id as impression_id {CLICKED}", "clicks.parquet"),
    ),
    "exposures_without_unit": Broken(
        ("logs.exposures: no column 'user_id' for unit_id", "the log has: uid"),
        add='[logs.exposures]\npath = "x.parquet"\n',
        files=copied("select 1 as uid", "x.parquet"),
    ),
    "exposures_of_others": Broken(
        ("(not_exposed 2,400)", "are the ids written the same way"),
        add='[logs.exposures]\npath = "x.parquet"\n',
        files=copied("select 'zz' as user_id, 'a' as variant", "x.parquet"),
    ),
    "items_without_id": Broken(
        ("logs.items: no column item_id", "the log has: id"),
        add='[logs.items]\npath = "x.parquet"\n',
        files=copied("select 1 as id", "x.parquet"),
    ),
    # The machine.
    "memory_in_words": Broken(
        ("engine.memory_limit: should be a size such as \"4GB\" (got 'lots')",),
        add='[engine]\nmemory_limit = "lots"\n',
    ),
    "memory_too_small": Broken(
        ("memory", "raise [engine] memory_limit"), add='[engine]\nmemory_limit = "1MB"\n'
    ),
    "memory_too_large": Broken(
        ("DuckDB does not accept these [engine] options",),
        add='[engine]\nmemory_limit = "99999999999999999999TB"\n',
    ),
    "no_threads": Broken(
        ("engine.threads: should be greater than or equal to 1 (got 0)",),
        add="[engine]\nthreads = 0\n",
    ),
    "csv_is_a_folder": Broken(("cannot write", "it is a folder"), options=("--csv", "{folder}")),
    "no_folder_for_the_csv": Broken(
        ("no/where does not exist", "mkdir -p"), options=("--csv", "{folder}/no/where/x.csv")
    ),
    "no_folder_for_the_report": Broken(
        ("no/where does not exist", "mkdir -p"), options=("--report", "{folder}/no/where/x.html")
    ),
}


@pytest.mark.first_cases(48)
@pytest.mark.parametrize("name", BROKEN)
def test_one_message_says_what_where_and_how_to_mend_it(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = BROKEN[name]
    broken.lay_out(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    options = [option.format(folder=tmp_path) for option in broken.options]
    assert run(tmp_path, monkeypatch, *options) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    for words in broken.says:
        assert words in err
    assert "Traceback" not in err
    assert len(err) < 1500
    assert sorted(tmp_path.rglob("*")) == before  # nothing written, whole or half


ALL = ("gauc", "auc", "q_ctr", "ndcg", "mrr", "map", "dwell_per_click", "long_click_rate")


def scorecard(
    folder: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], log: str
) -> dict[str, dict[str, Any]]:
    write(folder, log)
    (folder / "e.toml").write_text(FILE + "".join(f'[[metrics]]\nname = "{n}"\n' for n in names))
    assert run(folder, monkeypatch) == 0
    found = json.loads((folder / "o.json").read_text())
    return {row["metric"]: row for row in found["scorecard"]}


@pytest.mark.parametrize(
    "clicks",
    [
        "0",
        "null",
        pytest.param("cast(null as int)", marks=pytest.mark.slow),
        pytest.param("cast('nan' as double)", marks=pytest.mark.slow),
    ],
)
def test_without_a_click_each_metric_of_clicks_is_refused(
    clicks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = scorecard(tmp_path, monkeypatch, ALL, replaced(click=clicks))
    assert {row["reason"] for row in rows.values()} == {"no_clicks"}
    assert {row["status"] for row in rows.values()} == {"too_little_data"}
    assert {row["lift"] for row in rows.values()} == {None}


@pytest.mark.parametrize(
    "scores",
    [
        "null",
        "cast('nan' as double)",
        pytest.param("cast(null as double)", marks=pytest.mark.slow),
        pytest.param("cast('inf' as double)", marks=pytest.mark.slow),
    ],
)
def test_without_a_score_only_metrics_of_scores_are_refused(
    scores: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = scorecard(tmp_path, monkeypatch, ALL, replaced(score=scores))
    refused = {name for name, row in rows.items() if row["reason"] == "no_scores"}
    assert refused == {"gauc", "auc", "q_ctr"}
    assert rows["ctr"]["reason"] is None
    assert rows["ctr"]["lift"] is not None


def test_a_variant_without_units_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = scorecard(tmp_path, monkeypatch, (), replaced(variant="'a'"))
    assert (rows["ctr"]["status"], rows["ctr"]["reason"]) == ("untrusted", "no_units")
    assert (rows["ctr"]["units_control"], rows["ctr"]["units"]) == (120, 0)


def test_metrics_whose_columns_are_missing_are_refused_and_the_others_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = f"select * exclude (position, score) from ({LOG})"
    rows = scorecard(tmp_path, monkeypatch, ALL, log)
    missing = {name for name, row in rows.items() if row["reason"] == "missing_columns"}
    assert missing == {"gauc", "auc", "q_ctr", "ndcg", "mrr", "map"}
    assert rows["ctr"]["lift"] is not None


def test_positions_are_not_asked_for_where_no_metric_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = scorecard(tmp_path, monkeypatch, (), replaced(position="position - 3"))
    assert rows["ctr"]["reason"] is None


def test_positions_may_count_from_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    from_1 = scorecard(tmp_path / "one", monkeypatch, ("mrr",), LOG)
    Broken((), mapped("first_position = 0"), RANKING, replaced(position="position - 1")).lay_out(
        tmp_path
    )
    assert run(tmp_path, monkeypatch) == 0
    rows = json.loads((tmp_path / "o.json").read_text())["scorecard"]
    assert rows[1] == from_1["mrr"]


@pytest.mark.whole
@pytest.mark.parametrize(
    "user", ["user_id || repeat('x', 100000)", "user_id || chr(0) || 'x'", "user_id || '💥'"]
)
def test_odd_ids_are_ids(user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = scorecard(tmp_path, monkeypatch, (), replaced(user_id=user))
    assert (rows["ctr"]["units_control"], rows["ctr"]["units"]) == (60, 60)


def test_a_time_or_position_that_is_none_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = "impression_id = 7"
    log = replaced(
        ts=f"case when {one} then timestamp 'infinity' else ts end",
        position=f"case when {one} then cast('nan' as double) else position end",
    )
    rows = scorecard(tmp_path, monkeypatch, ("mrr",), log)
    assert rows["mrr"]["lift"] is not None
    accounting = json.loads((tmp_path / "o.json").read_text())["accounting"]
    assert accounting[0]["set_aside"] == [["null_time", 1]]


def test_marks_of_other_tools_beside_the_files_are_no_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log.parquet").mkdir()
    for name in ("_SUCCESS", "_metadata.crc", ".part-0.parquet.crc"):
        (tmp_path / "log.parquet" / name).write_text("x")
    write(tmp_path, LOG, "log.parquet/part-0.parquet")
    (tmp_path / "e.toml").write_text(FILE)
    assert run(tmp_path, monkeypatch) == 0


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, LOG)
    (tmp_path / "e.toml").write_text(FILE, encoding="utf-8-sig")
    assert run(tmp_path, monkeypatch) == 0


@pytest.mark.parametrize("name", ["missing_file", "no_folder_for_the_csv"])
def test_the_installed_command_exits_2_without_a_traceback(name: str, tmp_path: Path) -> None:
    broken = BROKEN[name]
    broken.lay_out(tmp_path)
    options = [option.format(folder=tmp_path) for option in broken.options]
    done = subprocess.run(  # noqa: S603 (our own command)
        [sys.executable, "-m", "abeval", "analyze", f"{tmp_path / 'e.toml'}", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
