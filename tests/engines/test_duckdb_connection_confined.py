"""The engine opens the logs and nothing more: no other file, address, extension or setting."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import abeval
from abeval.aggregates.collect import collect
from abeval.engines.duckdb import DuckDBEngine
from abeval.errors import AbevalError, ExperimentError, LogError, QueryError
from abeval.experiment.metrics import find_metrics_by_name
from abeval.experiment.sections import EngineOptions
from abeval.experiment.sources import LogSource
from abeval.inference.judge import judge
from abeval.logs.run import open_run
from tests.logs.small import small_log

WORDS = "what another file says"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.csv").write_text(f"words\n{WORDS}\n")
    small_log().to_parquet(tmp_path / "log.parquet")
    return tmp_path


def experiment(folder: Path, **entries: Any) -> abeval.LoadedExperiment:
    base: dict[str, Any] = {
        "name": "t",
        "unit": "user_id",
        "control": "a",
        "variants": {"a": {}, "b": {}},
        "metrics": [{"name": "ctr"}],
        "logs": {"impressions": {"path": "log.parquet"}},
        "engine": {"threads": 1},
    }
    return abeval.define(folder, **{**base, **entries})


OUTSIDE = [
    "from read_csv('secret.csv')",
    "from read_text('{folder}/secret.csv')",
    "from read_blob('{folder}/log.parquet/../secret.csv')",
    "from glob('{folder}/*')",
    "from 'https://example.com/a.parquet'",
    "from 's3://bucket/a.parquet'",
    "copy (select 1) to '{folder}/new.csv'",
    "attach '{folder}/new.duckdb' as new",
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "set threads = 2",
    "pragma enable_profiling",
    "create secret s (type s3, key_id 'k', secret 's')",
    "export database '{folder}/all'",
]


@pytest.mark.parametrize("limit", [None, "1GB"])
def test_nothing_else_is_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None
) -> None:
    monkeypatch.chdir(folder)
    engine = DuckDBEngine(EngineOptions(memory_limit=limit), folder)
    try:
        log = experiment(folder).experiment.logs.impressions
        engine.confine([log], [str(folder / "mine")])
        engine.add_log("raw_impressions", log)
        assert engine.rows("select count(*) from raw_impressions") == [(240,)]
        for sql in OUTSIDE:
            with pytest.raises(QueryError):
                engine.rows(sql.format(folder=folder))
        (folder / "mine").mkdir()
        engine.rows(f"copy (select 7 as a) to '{folder}/mine/a.parquet' (format parquet)")
        assert engine.rows(f"from read_parquet('{folder}/mine/a.parquet')") == [(7,)]
    finally:
        engine.close()
    assert {p.name for p in folder.iterdir()} == {"secret.csv", "log.parquet", "mine"}


def spied(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """Of each engine that is closed: whether it was confined."""
    states: list[list[Any]] = []
    close = DuckDBEngine.close

    def closing(engine: DuckDBEngine) -> None:
        sql = (
            "select name, value from duckdb_settings() where name in "
            "('enable_external_access', 'lock_configuration', 'autoload_known_extensions') "
            "order by 1"
        )
        states.append([value for _, value in engine.rows(sql)])
        close(engine)

    monkeypatch.setattr(DuckDBEngine, "close", closing)
    return states


CONFINED = ["false", "false", "true"]


@pytest.mark.whole
def test_every_way_to_an_engine_confines_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states = spied(monkeypatch)
    frame = small_log()
    frame.assign(other=0.5).to_parquet(folder / "scores.parquet")
    loaded = experiment(folder, models={"m": {"score": "score"}}, control="a")
    loaded.analyze()
    loaded.compare("ctr")
    loaded.windows()
    loaded.aa(runs=10)
    loaded.power(mde=0.1)
    experiment(folder, logs={"impressions": {}}).analyze(logs={"impressions": frame})
    rows = frame.rename(columns={"user_id": "unit_id", "click": "grade"})
    abeval.evaluate_log(rows, ["score"], metrics=["mrr"])
    rows.to_parquet(folder / "rows.parquet")
    abeval.evaluate_log(folder / "rows.parquet", ["score"], metrics=["mrr"])
    assert states == [CONFINED] * 8


@pytest.mark.whole
def test_logs_of_every_kind_are_read(folder: Path) -> None:
    frame = small_log()
    parts = folder / "odd 'name'" / "day=1"
    parts.mkdir(parents=True)
    frame.to_csv(folder / "log.csv", index=False)
    written = frame.assign(ts=frame["ts"].dt.strftime("%Y-%m-%d %H:%M:%S"))
    written.to_json(folder / "log.jsonl", orient="records", lines=True)
    frame.to_parquet(parts / "part.parquet")
    (folder / "link.parquet").symlink_to(folder / "log.parquet")
    database = duckdb.connect(str(folder / "log.duckdb"))
    database.execute("create table impressions as from frame")
    database.execute("create view shown as select * from impressions where position > 0")
    database.close()
    for source in (
        {"path": "log.csv"},
        {"path": "log.jsonl"},
        {"path": "link.parquet"},
        {"path": "*g.parquet"},
        {"path": "odd 'name'"},
        {"path": str(folder / "log.parquet")},
        {"table": "impressions", "path": "log.duckdb"},
        {"table": "shown", "path": "log.duckdb"},
    ):
        result = experiment(folder, logs={"impressions": source}).analyze()
        assert result.scorecard[0].reason is None
        assert result.scorecard == experiment(folder).analyze().scorecard


def test_a_database_that_was_not_closed_is_read(folder: Path) -> None:
    code = (
        "import duckdb, os; c = duckdb.connect('log.duckdb'); "
        "c.execute(\"create table t as from 'log.parquet'\"); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)  # noqa: S603
    assert (folder / "log.duckdb.wal").exists()
    result = experiment(folder, logs={"impressions": {"table": "t", "path": "log.duckdb"}})
    assert result.analyze().scorecard == experiment(folder).analyze().scorecard


def test_a_view_of_a_database_reads_no_file(folder: Path) -> None:
    database = duckdb.connect(str(folder / "log.duckdb"))
    log, secret = folder / "log.parquet", folder / "secret.csv"
    database.execute(f"create view v as select l.*, s.words from '{log}' l, read_csv('{secret}') s")
    database.close()
    loaded = experiment(
        folder,
        logs={"impressions": {"table": "v", "path": "log.duckdb"}},
        segments={"words": "words"},
    )
    with pytest.raises(LogError, match="v cannot be read as the log impressions") as refused:
        loaded.analyze()
    assert "may read its own tables, and no file" in str(refused.value)
    assert WORDS not in str(refused.value)


def test_a_callers_connection_keeps_its_settings(folder: Path) -> None:
    with duckdb.connect() as caller:
        caller.execute(f"create view v as from '{folder / 'log.parquet'}'")
        loaded = experiment(folder, logs={"impressions": {"table": "v"}})
        assert loaded.analyze(connection=caller).scorecard
        assert caller.execute("select current_setting('lock_configuration')").fetchall() == [
            (False,)
        ]
        assert caller.execute(
            f"select count(*) from read_csv('{folder / 'secret.csv'}')"
        ).fetchall()


@pytest.mark.parametrize("path", ["s3://bucket/a.parquet", "https://example.com/a.parquet"])
def test_an_address_is_read_only_where_the_experiment_says_so(folder: Path, path: str) -> None:
    with pytest.raises(LogError, match="impressions is at an address: ") as refused:
        experiment(folder, logs={"impressions": {"path": path}}).analyze()
    assert "remote_files" in str(refused.value)


@pytest.mark.parametrize(
    ("path", "settings"),
    [("s3://b/a.parquet", ["true", "true", "false"]), ("log.parquet", ["true", "false", "true"])],
)
def test_remote_files_let_duckdb_fetch_its_extension(
    folder: Path, monkeypatch: pytest.MonkeyPatch, path: str, settings: list[str]
) -> None:
    """Where a log is remote; DuckDB may then open any file, and the docs say so."""
    states = spied(monkeypatch)
    engine = DuckDBEngine(EngineOptions(remote_files=True), folder)
    engine.confine([LogSource(path=path)])
    engine.close()
    assert states == [settings]


SECRETS = [
    "https://ann:pw9x@example.com/a.parquet",
    "s3://AKIA:pw9x/pw9y@bucket/a.parquet?X-Amz-Signature=f00dcafe&X-Amz-Credential=AKIA",
    "https://example.com/a.parquet?sig=f00dcafe&token=pw9x",
]


@pytest.mark.parametrize("path", SECRETS)
def test_secrets_of_addresses_are_masked(folder: Path, path: str) -> None:
    with pytest.raises(LogError) as refused:
        experiment(folder, logs={"impressions": {"path": path}}).analyze()
    said = str(refused.value)
    assert "***" in said
    assert not [word for word in ("ann", "pw9x", "pw9y", "f00dcafe", "AKIA") if word in said]


def test_a_token_of_spark_is_masked(folder: Path) -> None:
    address = "sc://ann:pw9x@127.0.0.1:1/;token=f00dcafe"
    with pytest.raises(AbevalError) as refused:
        raise QueryError(f"no Spark Connect server answers at {address!r}", f"{address} needs")
    assert str(refused.value).count("sc://***@127.0.0.1:1/;token=***") == 2
    with pytest.raises(ExperimentError) as wrong:
        experiment(folder, engine={"address": ["https://x:pass@h/?token=f00dcafe"]})
    assert "pass" not in str(wrong.value)


def test_secrets_are_masked_in_json_page_and_terminal(folder: Path) -> None:
    loaded = experiment(folder)
    with open_run(loaded.experiment, {}) as run:
        aggregates = collect(run, find_metrics_by_name(loaded.experiment))
    noted = replace(aggregates, notes=tuple(f"{path} lacks click" for path in SECRETS))
    result = judge(loaded.experiment, find_metrics_by_name(loaded.experiment), noted)
    page = result.report(folder / "page.html").read_text()
    for text in (result.to_json(), str(result), page[page.index("<body") :]):
        assert text.count("***@") == 2
        assert not [word for word in ("ann:", "pw9x", "pw9y", "f00dcafe", "AKIA") if word in text]


def test_frames_need_no_file(tmp_path: Path) -> None:
    loaded = experiment(tmp_path, logs={"impressions": {}})
    frame: pd.DataFrame = small_log()
    assert loaded.analyze(logs={"impressions": frame}).scorecard
    assert not list(tmp_path.iterdir())
