"""Where logs are, what their columns are called, and expressions over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import abeval
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import AbevalError, LogError
from abeval.logs.run import Run, open_log
from tests.logs.small import analyze, per_unit, small_log, values

OWN_NAMES = (
    "day",
    "time_ms",
    "key_1",
    "set_aside",
    "c_1",
    "s_x",
    "raw_x",
    "x",
    "raw_raw_x",
    "own_click",
    "own_dwell_ms",
    "in_period",
    "dwell_seen",
    "clicks",
    "copy",
    "variant_low",
    "unit_id",
    "score_1",
    'we"ird',
    "two words",
    "select",
    "naïve",
    "100%",
)


CON = duckdb.connect()


@pytest.fixture(scope="module")
def whole() -> dict[str, tuple[float | None, float | None]]:
    return values(analyze(small_log()))


def write(log: pd.DataFrame, file: Path) -> None:
    options = {".csv": "csv, header", ".json": "json", ".parquet": "parquet"}[file.suffix]
    file.parent.mkdir(parents=True, exist_ok=True)
    CON.execute(f"copy log to '{file}' (format {options})").fetchall()


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_files(suffix: str, tmp_path: Path, whole: object) -> None:
    write(small_log(), tmp_path / f"log.{suffix}")
    logs = {"impressions": {"path": f"log.{suffix}"}}
    assert values(analyze(folder=tmp_path, logs=logs)) == whole


@pytest.mark.parametrize(
    "path", ["logs/part*.parquet", "logs", ["logs/part0.parquet", "logs/part1.parquet"]]
)
def test_globs_folders_and_lists(path: str | list[str], tmp_path: Path, whole: object) -> None:
    log = small_log()
    write(log.head(100), tmp_path / "logs" / "part0.parquet")
    write(log.tail(140), tmp_path / "logs" / "part1.parquet")
    assert values(analyze(folder=tmp_path, logs={"impressions": {"path": path}})) == whole


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_hive_partitions_are_columns(suffix: str, tmp_path: Path, whole: object) -> None:
    for variant, rows in small_log().groupby("variant"):
        folder = tmp_path / "logs" / f"variant={variant}"
        write(rows.drop(columns="variant"), folder / f"log.{suffix}")
    assert values(analyze(folder=tmp_path, logs={"impressions": {"path": "logs"}})) == whole


def test_a_table_of_a_database_file(tmp_path: Path, whole: object) -> None:
    log = small_log()
    with duckdb.connect(tmp_path / "logs.db") as connection:
        connection.register("frame", log)
        connection.execute("create table shown as select * from frame")
    logs = {"impressions": {"table": "shown", "path": "logs.db"}}
    assert values(analyze(folder=tmp_path, logs=logs)) == whole


def test_a_table_of_the_callers_connection(whole: object) -> None:
    log = small_log()
    with duckdb.connect() as connection:
        connection.register("frame", log)
        connection.execute("create table shown as select * from frame")
        logs = {"impressions": {"table": "shown"}}
        assert values(analyze(connection=connection, logs=logs)) == whole
        tables = connection.execute("select table_name from information_schema.tables").fetchall()
        assert ("shown",) in tables
        assert ("units",) not in tables


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries(library: str, whole: object) -> None:
    made = pytest.importorskip(library)
    log = small_log()
    frame = made.from_pandas(log) if library == "polars" else made.Table.from_pandas(log)
    assert values(analyze(frame)) == whole


def test_columns_of_any_name(whole: object) -> None:
    log = small_log()
    names = {"ts": 'when "it" was', "request_id": "request id", "click": "c_1", "variant": "group"}
    logs = {"impressions": {"columns": names}}
    log = log.rename(columns={**names, "user_id": "select"})
    assert values(analyze(log, unit="select", logs=logs)) == whole


def test_case_of_column_names_does_not_matter(whole: object) -> None:
    log = small_log().rename(columns=str.upper)
    assert values(analyze(log)) == whole
    logs = {"impressions": {"columns": {"click": "Click", "ts": "TS"}}}
    assert values(analyze(log, unit="User_Id", logs=logs)) == whole


def test_a_mapped_column_outranks_its_namesake() -> None:
    log = small_log().assign(click=1, opened=small_log().click)
    logs = {"impressions": {"columns": {"click": "opened"}}}
    assert values(analyze(log, logs=logs)) == values(analyze(small_log()))


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(LogError, match="'clicked' for click"):
        analyze(small_log(), logs={"impressions": {"columns": {"click": "clicked"}}})


def test_own_metrics_over_columns_that_are_named_like_ours() -> None:
    log = small_log()
    own = {name: (log.index * (7 + n)) % (11 + n) for n, name in enumerate(OWN_NAMES)}
    log = pd.concat([log, pd.DataFrame(own)], axis=1)
    quoted = {f"m{n}": name for n, name in enumerate(OWN_NAMES) if name != "unit_id"}
    metrics = [
        {"name": metric, "value": '"' + name.replace('"', '""') + '"'}
        for metric, name in quoted.items()
    ]
    found = analyze(log, metrics=metrics, segments={"x": "x % 3 = 0", "dwell": "s_x % 3 = 0"})
    for metric, name in quoted.items():
        assert found[metric].control == pytest.approx(per_unit(log, name, "a"), rel=1e-12), name
        assert found[metric].treatment == pytest.approx(per_unit(log, name, "b"), rel=1e-12), name
    assert {(r.slice, r.cell) for r in found.segments} >= {
        ("x", "false"), ("x", "true"), ("dwell", "false"), ("dwell", "true"),
    }  # fmt: skip


def test_own_ratios_over_clicks_and_dwell() -> None:
    log = small_log().assign(price=lambda f: f.item_id * 1.25)
    found = analyze(
        log,
        metrics=[
            {"name": "revenue", "value": "price * click"},
            {
                "name": "margin",
                "numerator": "case when dwell > 30 then click end",
                "denominator": "price + 1",
            },
            {
                "name": "top",
                "numerator": "CLICK",
                "denominator": "case when Position = 1 then 1 end",
            },
            {"name": "scores", "value": "SCORE"},
        ],
    )
    for row, (variant, rows) in zip(("control", "treatment"), log.groupby("variant"), strict=True):
        paid = rows.assign(paid=rows.price * rows.click)
        assert getattr(found["revenue"], row) == pytest.approx(per_unit(paid, "paid", variant))
        expected = (rows.click * (rows.dwell > 30)).sum() / (rows.price + 1).sum()
        assert getattr(found["margin"], row) == pytest.approx(expected, rel=1e-12)
        expected = rows.click.sum() / (rows.position == 1).sum()
        assert getattr(found["top"], row) == pytest.approx(expected, rel=1e-12)
        assert getattr(found["scores"], row) == pytest.approx(per_unit(rows, "score", variant))


def test_a_canonical_name_in_capitals_is_still_canonical() -> None:
    """Clicks come from their own table: the impressions have no column of that name."""
    log = small_log()
    clicks = log[log.click == 1][["request_id", "item_id", "position", "dwell"]]
    found = analyze(
        log.drop(columns=["click", "dwell"]),
        clicks=clicks,
        metrics=[{"name": "v", "value": "CLICK"}],
    )
    assert values(found)["v"] == pytest.approx(values(analyze(log))["clicks_per_user"])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), None])
def test_values_that_are_no_number_add_nothing(value: float | None) -> None:
    pl = pytest.importorskip("polars")
    log = pl.from_pandas(small_log()).with_columns(
        pl.when(pl.col("position") == 2).then(value).otherwise(0.5).alias("v")
    )
    found = analyze(log, metrics=[{"name": "v", "value": "v"}])
    plain = small_log().assign(v=lambda f: 0.5 * (f.position != 2))
    assert found["v"].control == pytest.approx(per_unit(plain, "v", "a"), rel=1e-12)


def test_items_without_categories_give_no_diversity() -> None:
    log = small_log().drop(columns="category")
    items = pd.DataFrame({"item_id": range(12)})
    found = analyze(log, items=items, metrics=["category_diversity"])
    assert found["category_diversity"].reason == "missing_columns"


def test_categories_of_items_fill_what_the_log_leaves_empty() -> None:
    log = small_log().assign(category=lambda f: "c" + (f.item_id % 3).astype(str))
    items = log[["item_id", "category"]].drop_duplicates()
    known = log.category.where(log.index % 2 == 0, None)
    found = analyze(log.assign(category=known), items=items, metrics=["category_diversity"])
    assert values(found) == values(analyze(log, metrics=["category_diversity"]))


def test_metrics_of_lists_are_refused_without_requests() -> None:
    names = ["ndcg", "mrr", "map", "category_diversity", "page_views_per_user"]
    found = analyze(small_log().drop(columns="request_id"), metrics=names)
    assert {row.reason for row in found.scorecard} == {"missing_columns"}
    assert all(any(name in note for note in found.notes) for name in names)


def test_variants_the_experiment_does_not_know() -> None:
    log = small_log()
    log.loc[:9, "variant"] = "zz"
    log.loc[10:14, "variant"] = None
    found = analyze(log)
    account = dict(found.accounting[0].set_aside)
    assert account == {"not_compared": 10, "null_variant": 5}


def test_variants_in_another_spelling_are_named(tmp_path: Path) -> None:
    """A fifth of the rows is lost because clients capitalise; it was a number in a note."""
    log = small_log()
    log.loc[::4, "variant"] = log.variant[::4].str.upper() + " "
    log.loc[1:10:4, "variant"] = "zz"
    entries: dict[str, Any] = {"name": "x", "unit": "user_id", "control": "a"}
    entries |= {"variants": {"a": {}, "b": {}}, "cleaning": {"duplicates": "unchecked"}}
    logs = {"impressions": {"path": "*.parquet"}}
    loaded = abeval.define(tmp_path, **entries, logs=logs, metrics=[{"name": "ctr"}])
    log[:100].to_parquet(tmp_path / "1.parquet")
    log[100:].to_parquet(tmp_path / "2.parquet")
    result = loaded.analyze()
    (check,) = (check for check in result.trust if check.name == "variant_spelling")
    others = log.variant[::4].value_counts().to_dict()
    assert check.status == "fail"
    assert check.value == pytest.approx(sum(others.values()) / len(log))
    for variant, rows in others.items():
        assert f"{variant!r} ({rows})" in check.message
    assert '[variants.a] of = ["a", "A "]' in check.remedy
    assert '[variants.b] of = ["b", "B "]' in check.remedy
    (note,) = (note for note in result.notes if "not compared" in note)
    assert "'zz'" in note
    assert "zz" not in check.message


def test_a_log_that_names_no_variant_needs_an_assignment() -> None:
    with pytest.raises(AbevalError, match="no column `variant`"):
        analyze(small_log().drop(columns="variant"))


def test_only_an_id_with_a_point_is_advised_to_be_cast() -> None:
    log = small_log()
    for wrong, is_advised in ((log.assign(dwell="long"), False), (log.assign(user_id=0.5), True)):
        with pytest.raises(LogError) as error:
            analyze(wrong)
        assert ("pandas writes whole numbers with a null so" in str(error.value)) == is_advised


def test_a_query_of_tables_alone_reads_no_row_of_the_log() -> None:
    loaded = abeval.define(
        name="e",
        unit="user_id",
        control="a",
        variants={"a": {}, "b": {}},
        tables={"shown": {"path": "shown.parquet"}},
        logs={"impressions": {"query": "select * from shown where position < 3"}},
    )
    engine = DuckDBEngine()
    read, left, _ = open_log(Run(loaded.experiment, engine, {"shown": small_log()}), "impressions")
    engine.close()
    assert (read, left) == (0, 96)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize("is_text", [False, True], ids=["numbers", "text"])
def test_fields_of_structs_are_columns_by_dotted_names(
    tmp_path: Path, is_text: bool, ending: str
) -> None:
    rows = pd.DataFrame(
        {
            "user": [
                {
                    "id": f"u{i % 40}" if is_text else i % 40,
                    "geo": {"country": "de" if i % 3 else "fr"},
                }
                for i in range(400)
            ],
            "context": [
                {"ab": {"variant": "ab"[i % 2]}, "time": f"2026-07-{i % 9 + 1:02}T10:00:00"}
                for i in range(400)
            ],
            "item_id": range(400),
            "seen": [{"click": i % 4 == 0, "n": i} for i in range(400)],
        }
    )
    if ending == "parquet":
        rows.to_parquet(tmp_path / "log.parquet")
    else:
        rows.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    columns = {"variant": "context.ab.variant", "ts": "context.time", "click": "seen.click"}
    experiment = abeval.define(
        folder=tmp_path,
        name="nested",
        unit="user.id",
        control="a",
        variants={"a": {}, "b": {}},
        logs={"impressions": {"path": f"log.{ending}", "columns": columns}},
        segments={"country": "user.geo.country"},
        metrics=[{"name": "ctr", "role": "goal"}, {"name": "n", "value": "seen.n + 0"}],
    )
    result = experiment.analyze()
    of_b = rows[rows.index % 2 == 1]
    assert result["ctr"].treatment == sum(one["click"] for one in of_b["seen"]) / len(of_b)
    assert result["n"].treatment == sum(one["n"] for one in of_b["seen"]) / 20
    assert result.segments
    with pytest.raises(LogError, match=r"no column 'user.key' for unit_id"):
        experiment.replace(unit="user.key").analyze()


@pytest.mark.parametrize(
    ("variants", "said", "remedy"),
    [
        (
            {"a": {}, "treatmnt": {}},
            "no unit was assigned to 'treatmnt', but the impressions have variants that the "
            "experiment does not name: 'treatment' (120 rows); 'treatmnt' is likely 'treatment'",
            '[variants.treatmnt] of = ["treatment"]',
        ),
        (
            {"a": {}, "treatment": {"of": ["treatmnt"]}},
            "'treatment' (120 rows); 'treatmnt' is likely 'treatment'",
            '[variants.treatment] of = ["treatment"]',
        ),
        (
            {"a": {}, "treatment": {}, "challenger": {}},
            "no unit was assigned to 'challenger': the impressions have rows of other variants "
            "only",
            "leave out of [variants] what has not started",
        ),
    ],
)
def test_a_variant_that_nobody_is_in_is_named_with_what_it_may_be(
    variants: dict[str, Any], said: str, remedy: str
) -> None:
    """A misspelt variant was a warning of redirects and bots, its cause in the notes."""
    log = small_log().assign(user_id=np.arange(240), variant=["a", "treatment"] * 120)
    result = analyze(log, variants=variants)
    check = next(check for check in result.trust if check.name == "srm")
    assert check.status == "fail"
    assert said in check.message
    assert remedy in check.remedy
    assert "bots" not in check.message + check.remedy
    assert said in result.verdicts[0].sentence
